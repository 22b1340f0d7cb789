package offsetlog.spark;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** The idle processes of this JVM, which wait for the next tasks. Any thread may use the pool. */
final class WorkerPool {
    /** The Java property that sets the number of seconds after which a process without a task is ended. */
    private static final String IDLE_SECONDS = "offsetlog.worker.idle.seconds";

    private static final Map<WorkerCommand, ArrayDeque<Idle>> IDLE = new HashMap<>();
    private static ScheduledExecutorService sweeper;

    private record Idle(Worker worker, long since) {}

    private WorkerPool() {}

    /** Returns an idle process, or a new one. */
    static Worker take(WorkerCommand command, BooleanSupplier isUnwanted) throws IOException {
        for (Worker worker = idle(command); worker != null; worker = idle(command)) {
            if (worker.isAlive()) {
                return worker;
            }
            worker.close();
        }
        return Worker.start(command, isUnwanted);
    }

    /** Takes back a process that has finished its task. */
    static synchronized void give(WorkerCommand command, Worker worker) {
        IDLE.computeIfAbsent(command, any -> new ArrayDeque<>()).push(new Idle(worker, System.nanoTime()));
        if (sweeper == null) {
            sweeper = Executors.newSingleThreadScheduledExecutor(WorkerPool::sweeperThread);
            sweeper.scheduleWithFixedDelay(WorkerPool::sweep, 1, 1, TimeUnit.SECONDS);
        }
    }

    private static Thread sweeperThread(Runnable work) {
        Thread thread = new Thread(work, "offsetlog-worker-pool");
        thread.setDaemon(true);
        return thread;
    }

    private static synchronized Worker idle(WorkerCommand command) {
        ArrayDeque<Idle> idle = IDLE.get(command);
        return idle == null || idle.isEmpty() ? null : idle.pop().worker();
    }

    private static void sweep() {
        for (Worker worker : overdue()) {
            worker.close();
        }
    }

    private static synchronized List<Worker> overdue() {
        List<Worker> found = new ArrayList<>();
        long now = System.nanoTime();
        long most = TimeUnit.SECONDS.toNanos(Long.getLong(IDLE_SECONDS, 60));
        for (ArrayDeque<Idle> idle : IDLE.values()) {
            while (!idle.isEmpty() && now - idle.getLast().since() >= most) {
                found.add(idle.removeLast().worker());
            }
        }
        return found;
    }
}
