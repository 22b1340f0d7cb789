package offsetlog.spark;

import java.util.Arrays;
import java.util.Set;
import java.util.HashSet;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Takes from Spark which columns a query uses. */
final class LogScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns {
    private final CaseInsensitiveStringMap options;
    private StructType schema;

    LogScanBuilder(StructType schema, CaseInsensitiveStringMap options) {
        this.schema = schema;
        this.options = options;
    }

    @Override
    public void pruneColumns(StructType required) {
        // Whole columns: Spark may ask for some fields of a nested one, and the source knows no such type.
        Set<String> names = new HashSet<>(Arrays.asList(required.fieldNames()));
        schema = new StructType(
                Arrays.stream(schema.fields()).filter(each -> names.contains(each.name())).toArray(StructField[]::new));
    }

    @Override
    public Scan build() {
        return new LogScan(schema, options);
    }
}
