package offsetlog.spark;

import java.util.Map;
import offsetlog.DefaultSource;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One query's read of a log: planned by the Python source, and read by processes that {@link WorkerPool} keeps. */
final class LogScan implements Scan, Batch {
    private final StructType schema;
    private final CaseInsensitiveStringMap options;
    private final PythonDataSourceV2 source = DefaultSource.pythonSource();

    LogScan(StructType schema, CaseInsensitiveStringMap options) {
        this.schema = schema;
        this.options = options;
    }

    @Override
    public StructType readSchema() {
        return schema;
    }

    @Override
    public String description() {
        return "offsetlog " + options.get("path");
    }

    @Override
    public Batch toBatch() {
        return this;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
        return pythonScan().toMicroBatchStream(checkpointLocation);
    }

    @Override
    public InputPartition[] planInputPartitions() {
        InputPartition[] planned = pythonScan().toBatch().planInputPartitions();
        InputPartition[] tasks = new InputPartition[planned.length];
        for (int i = 0; i < planned.length; i++) {
            tasks[i] = new LogPartition(((PythonInputPartition) planned[i]).pickedPartition());
        }
        return tasks;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new LogReaderFactory(
                WorkerCommand.of(source.source().dataSourceCls()), schema, Map.copyOf(options.asCaseSensitiveMap()));
    }

    private Scan pythonScan() {
        SupportsRead table = (SupportsRead) source.getTable(schema, new Transform[0], options.asCaseSensitiveMap());
        return table.newScanBuilder(options).build();
    }

    /** What one task reads: a pickled {@code offsetlog.spark.scan.plan.Task}. */
    record LogPartition(byte[] pickled) implements InputPartition {}
}
