package offsetlog.spark;

import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import offsetlog.DefaultSource;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Gets from Spark the columns and the filters of a query. Some of the filters reduce the amount that is read. */
final class LogScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownFilters {
    private final CaseInsensitiveStringMap options;
    private final PythonDataSourceV2 source = DefaultSource.pythonSource();
    private final ScanBuilder planner;
    private StructType schema;
    private Filter[] used = new Filter[0];

    LogScanBuilder(StructType schema, CaseInsensitiveStringMap options) {
        this.schema = schema;
        this.options = options;
        SupportsRead table = (SupportsRead) source.getTable(schema, new Transform[0], options.asCaseSensitiveMap());
        planner = table.newScanBuilder(options);
    }

    @Override
    public Filter[] pushFilters(Filter[] filters) {
        used = Arrays.stream(filters).filter(each -> LogFilter.of(each) != null).toArray(Filter[]::new);
        // Spark 4.0 passes no filters to a Python source. Later versions start a process to pass them.
        boolean isAsked = "true".equalsIgnoreCase(options.getOrDefault("pushdown", "").strip());
        if (isAsked && planner instanceof SupportsPushDownFilters python) {
            python.pushFilters(filters);
        }
        return filters;
    }

    @Override
    public Filter[] pushedFilters() {
        return used;
    }

    @Override
    public void pruneColumns(StructType required) {
        // Requests whole columns. Spark may request only some fields of a struct, but the source reads whole structs.
        Set<String> names = new HashSet<>(Arrays.asList(required.fieldNames()));
        schema = new StructType(
                Arrays.stream(schema.fields()).filter(each -> names.contains(each.name())).toArray(StructField[]::new));
    }

    @Override
    public Scan build() {
        List<LogFilter> filters = Arrays.stream(used).map(LogFilter::of).filter(Objects::nonNull).toList();
        return new LogScan(schema, options, source, planner.build(), filters);
    }
}
