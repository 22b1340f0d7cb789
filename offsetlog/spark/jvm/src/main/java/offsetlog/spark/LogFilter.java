package offsetlog.spark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.In;

/**
 * The values of one column that a query's filter admits. They only reduce the amount that is read. Spark applies the
 * filter again to every row.
 *
 * @param column the name of the column
 * @param text the value, or numbers separated by commas
 */
record LogFilter(String column, String text) implements Serializable {
    private static final long serialVersionUID = 1;

    /** Returns the values of a filter in a form that the Python process can use; null if it cannot use them. */
    static LogFilter of(Filter filter) {
        if (filter instanceof EqualTo equal) {
            return of(equal.attribute(), equal.value());
        } else if (filter instanceof In some) {
            return of(some.attribute(), some.values());
        }
        return null;
    }

    private static LogFilter of(String column, Object... values) {
        boolean isText = values.length == 1 && values[0] instanceof String;
        boolean isNumbers = values.length > 0 && Arrays.stream(values).allMatch(Integer.class::isInstance);
        return switch (column) {
            case "group", "topic" -> isText ? new LogFilter(column, (String) values[0]) : null;
            case "partition" -> isNumbers && values.length == 1 ? new LogFilter(column, values[0].toString()) : null;
            case "log_partition" -> isNumbers ? new LogFilter(column, numbers(values)) : null;
            default -> null;
        };
    }

    private static String numbers(Object[] values) {
        return Arrays.stream(values).map(Object::toString).collect(Collectors.joining(","));
    }
}
