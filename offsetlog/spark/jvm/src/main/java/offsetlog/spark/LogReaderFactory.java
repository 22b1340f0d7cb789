package offsetlog.spark;

import java.util.Map;
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
    private final Map<String, String> options;

    LogReaderFactory(WorkerCommand command, StructType schema, Map<String, String> options) {
        this.command = command;
        this.schema = schema;
        this.options = options;
    }

    @Override
    public boolean supportColumnarReads(InputPartition partition) {
        return true;
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
        return new LogPartitionReader(command, schema, options, ((LogScan.LogPartition) partition).pickled());
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
        throw new UnsupportedOperationException("rows of offsetlog come in batches of columns");
    }
}
