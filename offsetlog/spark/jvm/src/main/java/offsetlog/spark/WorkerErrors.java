package offsetlog.spark;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/** Copies the standard error of a process to that of the executor, and keeps its last line. */
final class WorkerErrors extends Thread {
    private final Process process;
    private volatile String last = "";

    private WorkerErrors(Process process) {
        super("offsetlog-worker-stderr-" + process.pid());
        this.process = process;
        setDaemon(true);
    }

    static WorkerErrors follow(Process process) {
        WorkerErrors errors = new WorkerErrors(process);
        errors.start();
        return errors;
    }

    @Override
    public void run() {
        try (BufferedReader reader = new BufferedReader(
                new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                System.err.println(line);
                last = line.isBlank() ? last : line;
            }
        } catch (IOException closed) {
            // This JVM has ended the process.
        }
    }

    /** Returns how a process ended unexpectedly, as the end of a sentence. */
    String end(Process process) {
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                return "closed its connection";
            }
            join(1000);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return "ended";
        }
        int code = process.exitValue();
        String how = code > 128 ? "was ended by signal " + (code - 128) : "ended with code " + code;
        return last.isEmpty() ? how : how + ": " + last;
    }
}
