package offsetlog;

import java.util.Map;
import offsetlog.spark.LogTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The source {@code format("offsetlog")} if this jar is on the class path.
 *
 * <p>From 4.0 on, Spark looks for a class of this name before it looks for a Python source. Spark 4.0 and 4.1 refuse a
 * short name in META-INF/services if a Python source has the same name. The Python source remains registered. It does
 * everything except reading the rows of batch queries.
 */
public final class DefaultSource implements TableProvider {
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return pythonSource().inferSchema(options);
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new LogTable(schema, partitioning, properties);
    }

    @Override
    public boolean supportsExternalMetadata() {
        return true;
    }

    /** Returns the Python source of the active session. Spark looks the source up when it is first used. */
    public static PythonDataSourceV2 pythonSource() {
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName("offsetlog");
        return source;
    }
}
