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
 * How a Python process is started on an executor: as Spark starts those of the Python source.
 *
 * @param python the interpreter
 * @param environment variables to set besides those of the executor
 * @param includes files that the session gave to its workers, by name
 */
record WorkerCommand(String python, Map<String, String> environment, List<String> includes) implements Serializable {
    private static final long serialVersionUID = 1;
    private static final String MODULE = "offsetlog.spark.scan.block_worker";

    static WorkerCommand of(PythonFunction function) {
        return new WorkerCommand(
                function.pythonExec(), new HashMap<>(function.envVars()), new ArrayList<>(function.pythonIncludes()));
    }

    /** Returns a process that is not started, and will connect to a socket. */
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
        // As Spark does for its own: NumPy's libraries would start a thread for each core.
        builder.environment().putIfAbsent("OMP_NUM_THREADS", "1");
        builder.redirectInput(new File("/dev/null"));
        builder.redirectOutput(ProcessBuilder.Redirect.DISCARD);
        return builder;
    }
}
