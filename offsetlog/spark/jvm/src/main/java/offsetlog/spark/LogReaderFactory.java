package offsetlog.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Makes a reader for each task. Spark sends the factory to the executors. */
final class LogReaderFactory implements PartitionReaderFactory {
    private static final long serialVersionUID = 1;

    private final WorkerCommand command;
    private final StructType schema;
    private final List<LogFilter> filters;

    LogReaderFactory(WorkerCommand command, StructType schema, List<LogFilter> filters) {
        this.command = command;
        this.schema = schema;
        this.filters = filters;
    }

    @Override
    public boolean supportColumnarReads(InputPartition partition) {
        return true;
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
        return new LogPartitionReader(command, schema, filters, ((LogScan.LogPartition) partition).pickled());
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
        throw new UnsupportedOperationException("offsetlog reads batches of columns, not single rows");
    }
}
