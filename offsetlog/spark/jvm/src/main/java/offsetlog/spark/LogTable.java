package offsetlog.spark;

import java.util.Map;
import java.util.Set;
import offsetlog.DefaultSource;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A view of a log, or a store to write to. This class only reads batches; the Python source does everything else. */
public final class LogTable implements SupportsRead, SupportsWrite {
    private final StructType schema;
    private final Table python;

    public LogTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        this.schema = schema;
        this.python = DefaultSource.pythonSource().getTable(schema, partitioning, properties);
    }

    @Override
    public String name() {
        return "offsetlog";
    }

    @Override
    @SuppressWarnings("deprecation") // Spark 4.0 to 4.2 all have this method
    public StructType schema() {
        return schema;
    }

    @Override
    public Set<TableCapability> capabilities() {
        return python.capabilities();
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new LogScanBuilder(schema, options);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return ((SupportsWrite) python).newWriteBuilder(info);
    }
}
