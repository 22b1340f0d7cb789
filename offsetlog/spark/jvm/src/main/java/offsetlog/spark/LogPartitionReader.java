package offsetlog.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The blocks of one task. Each block reuses the memory of an earlier one. Use the reader from one thread only.
 *
 * <p>The protocol is in {@code offsetlog/spark/scan/block_worker.py}.
 */
final class LogPartitionReader implements PartitionReader<ColumnarBatch> {
    private static final int BLOCK = 1;
    private static final int END = 2;
    private static final int FAILURE = 3;
    private static final int HEAD_BYTES = 20;

    private final WorkerCommand command;
    private final BooleanSupplier isUnwanted;
    private final Worker worker;
    private final BlockVector[] columns;
    private final ColumnarBatch batch;
    private final ByteBuffer head = ByteBuffer.allocateDirect(HEAD_BYTES).order(ByteOrder.nativeOrder());
    private int slot = -1;
    private boolean isFinished;
    private boolean isClosed;

    LogPartitionReader(WorkerCommand command, StructType schema, List<LogFilter> filters, byte[] task) {
        this.command = command;
        TaskContext context = TaskContext.get();
        this.isUnwanted = () -> context != null && context.isInterrupted();
        columns = new BlockVector[schema.length()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = BlockVectors.of(schema.fields()[i].dataType());
        }
        batch = new ColumnarBatch(columns.clone());
        ByteBuffer request = request(schema, filters, task);
        try {
            worker = WorkerPool.take(command, isUnwanted);
            send(request);
        } catch (IOException failure) {
            throw new LogReadException(failure.getMessage(), failure);
        }
    }

    /** Sends the request. If this fails, closes the process, since nothing else would close it. */
    private void send(ByteBuffer request) throws IOException {
        boolean isSent = false;
        try {
            worker.write(request, isUnwanted);
            isSent = true;
        } finally {
            if (!isSent) {
                worker.close();
            }
        }
    }

    private static ByteBuffer request(StructType schema, List<LogFilter> filters, byte[] task) {
        List<byte[]> words = new ArrayList<>();
        words.add(schema.json().getBytes(StandardCharsets.UTF_8));
        words.add(task);
        for (LogFilter each : filters) {
            words.add(each.column().getBytes(StandardCharsets.UTF_8));
            words.add(each.text().getBytes(StandardCharsets.UTF_8));
        }
        int size = 8;
        for (byte[] word : words) {
            size += 4 + word.length;
        }
        ByteBuffer message = ByteBuffer.allocate(size).order(ByteOrder.nativeOrder());
        message.putInt(size - 4).putInt(words.size());
        for (byte[] word : words) {
            message.putInt(word.length).put(word);
        }
        return message.flip();
    }

    @Override
    public boolean next() throws IOException {
        if (isFinished) {
            return false;
        }
        releaseSlot();
        worker.read(head.clear(), isUnwanted);
        int kind = head.getInt(0);
        int size = head.getInt(12);
        if (kind == END) {
            isFinished = true;
            return false;
        }
        if (kind == FAILURE) {
            ByteBuffer text = ByteBuffer.allocate(size);
            worker.read(text, isUnwanted);
            isFinished = true;
            throw LogReadException.ofPython(new String(text.array(), StandardCharsets.UTF_8));
        }
        slot = head.getInt(16);
        show(kind == BLOCK ? body(size) : null, head.getInt(4), head.getInt(8));
        return true;
    }

    /** Returns a block's bytes, from its slot or from the connection. */
    private ByteBuffer body(int size) throws IOException {
        if (slot < 0) {
            ByteBuffer memory = worker.memory.room(size);
            worker.read(memory, isUnwanted);
            return memory.flip();
        }
        return worker.slots.block(slot, size);
    }

    private void releaseSlot() throws IOException {
        if (slot >= 0) {
            worker.write(ByteBuffer.allocate(1), isUnwanted);
            slot = -1;
        }
    }

    private void show(ByteBuffer body, int rows, int buffers) {
        BlockParts parts = new BlockParts(body, buffers);
        for (BlockVector column : columns) {
            column.read(parts, rows);
        }
        parts.end();
        batch.setNumRows(rows);
    }

    @Override
    public ColumnarBatch get() {
        return batch;
    }

    @Override
    public void close() {
        if (isClosed) {
            return;
        }
        isClosed = true;
        if (isFinished) {
            worker.memory.trim();
            WorkerPool.give(command, worker);
        } else {
            worker.close();
        }
    }
}
