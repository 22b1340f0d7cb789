package offsetlog.spark;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Goes to the executors; each task gets a reader from it. */
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
        throw new UnsupportedOperationException("rows of offsetlog come in batches of columns");
    }
}
