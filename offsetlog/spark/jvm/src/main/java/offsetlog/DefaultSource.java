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
 * {@code format("offsetlog")} where this jar is on the class path.
 *
 * <p>Spark looks for a class of this name before it asks for a Python source of the same name, in every version from
 * 4.0 on. A short name in META-INF/services would be refused by 4.0 and 4.1 beside a Python source that has it. The
 * Python source stays there and is asked for everything but the rows of a batch.
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

    /** Returns the Python source of the active session, which Spark looks up when it is first used. */
    public static PythonDataSourceV2 pythonSource() {
        PythonDataSourceV2 source = new PythonDataSourceV2();
        source.setShortName("offsetlog");
        return source;
    }
}
