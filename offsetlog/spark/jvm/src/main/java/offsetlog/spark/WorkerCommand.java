package offsetlog.spark;

import java.io.File;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkFiles;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonUtils;

/**
 * The command that starts a Python process on an executor, as Spark starts the processes of the Python source.
 *
 * @param python the interpreter
 * @param environment variables to set in addition to those of the executor
 * @param includes names of files that the session distributes to its workers
 */
record WorkerCommand(String python, Map<String, String> environment, List<String> includes) implements Serializable {
    private static final long serialVersionUID = 1;
    private static final String MODULE = "offsetlog.spark.scan.block_worker";

    static WorkerCommand of(PythonFunction function) {
        return new WorkerCommand(
                function.pythonExec(), new HashMap<>(function.envVars()), new ArrayList<>(function.pythonIncludes()));
    }

    /** Returns the builder of a process that will connect to a socket. */
    ProcessBuilder processFor(String socket) {
        ProcessBuilder builder = new ProcessBuilder(python, "-m", MODULE, socket);
        builder.environment().putAll(environment);
        List<String> path = new ArrayList<>();
        for (String include : includes) {
            path.add(new File(SparkFiles.getRootDirectory(), include).getPath());
        }
        path.add(PythonUtils.sparkPythonPath());
        path.add(environment.get("PYTHONPATH"));
        path.add(System.getenv("PYTHONPATH"));
        path.removeIf(each -> each == null || each.isEmpty());
        builder.environment().put("PYTHONPATH", String.join(File.pathSeparator, path));
        // Spark does the same for its own workers: NumPy's libraries would start a thread for each core.
        builder.environment().putIfAbsent("OMP_NUM_THREADS", "1");
        builder.redirectInput(new File("/dev/null"));
        builder.redirectOutput(ProcessBuilder.Redirect.DISCARD);
        return builder;
    }
}
