package offsetlog.spark;

import java.util.List;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The read of a log for one query. The Python source plans it, and the processes of {@link WorkerPool} execute it. */
final class LogScan implements Scan, Batch {
    private final StructType schema;
    private final CaseInsensitiveStringMap options;
    private final PythonDataSourceV2 source;
    private final Scan planner;
    private final List<LogFilter> filters;

    /**
     * Makes the scan for a query.
     *
     * @param source the Python source
     * @param planner the Python source's scan of all columns, which plans the tasks
     * @param filters the query's filters that the tasks can use
     */
    LogScan(
            StructType schema,
            CaseInsensitiveStringMap options,
            PythonDataSourceV2 source,
            Scan planner,
            List<LogFilter> filters) {
        this.schema = schema;
        this.options = options;
        this.source = source;
        this.planner = planner;
        this.filters = filters;
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
        return planner.toMicroBatchStream(checkpointLocation);
    }

    @Override
    public InputPartition[] planInputPartitions() {
        InputPartition[] planned = planner.toBatch().planInputPartitions();
        InputPartition[] tasks = new InputPartition[planned.length];
        for (int i = 0; i < planned.length; i++) {
            tasks[i] = new LogPartition(((PythonInputPartition) planned[i]).pickedPartition());
        }
        return tasks;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new LogReaderFactory(WorkerCommand.of(source.source().dataSourceCls()), schema, filters);
    }

    /** The work of one task: a pickled {@code offsetlog.spark.scan.plan.Task}. */
    record LogPartition(byte[] pickled) implements InputPartition {}
}
