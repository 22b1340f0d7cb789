package offsetlog.spark;

import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import org.apache.spark.api.python.PythonException;
import scala.collection.immutable.Map;

/** A failure of a task that no Python code raised: the Python process ended, or is of another version. */
final class LogReadException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private static final String MESSAGE = "An exception was thrown from the Python worker";
    private static final String OTHER_RELEASE = ": the jar and the Python package are of different releases; install the"
            + " same release of offsetlog as jar (spark.jars) and as package of PYSPARK_PYTHON on every executor";

    LogReadException(String message, Throwable cause) {
        super(message, cause);
    }

    /**
     * Returns the failure for a jar and a package of different releases.
     *
     * @param reason the difference that was noticed
     */
    static LogReadException ofOtherRelease(String reason) {
        return new LogReadException(reason + OTHER_RELEASE, null);
    }

    /** Returns the failure for a Python traceback, in the form in which Spark reports it for the Python source. */
    static RuntimeException ofPython(String traceback) {
        try {
            for (Constructor<?> each : PythonException.class.getConstructors()) {
                Class<?>[] types = each.getParameterTypes();
                if (types[1] == Map.class) {
                    // After Spark 4.0, PySpark accepts an exception only if it has a condition and these parameters.
                    return make(each, "PYTHON_EXCEPTION", parameters(traceback));
                } else if (types.length == 2) {
                    return make(each, MESSAGE + ":\n" + traceback, null);
                }
            }
        } catch (ReflectiveOperationException changed) {
            return new LogReadException(traceback, changed);
        }
        return new LogReadException(traceback, null);
    }

    private static Object parameters(String traceback) {
        return new Map.Map2<>("msg", MESSAGE, "traceback", traceback);
    }

    /** Calls a constructor; all parameters after the first two may be empty. */
    private static RuntimeException make(Constructor<?> constructor, String first, Object second)
            throws ReflectiveOperationException {
        Class<?>[] types = constructor.getParameterTypes();
        Object[] given = new Object[types.length];
        given[0] = first;
        given[1] = second;
        for (int i = 2; i < types.length; i++) {
            if (types[i].isArray()) {
                given[i] = Array.newInstance(types[i].getComponentType(), 0);
            } else if (types[i] == String.class) {
                given[i] = "";
            }
        }
        return (RuntimeException) constructor.newInstance(given);
    }
}
