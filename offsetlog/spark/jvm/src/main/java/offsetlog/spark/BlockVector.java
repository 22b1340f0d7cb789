package offsetlog.spark;

import java.nio.ByteBuffer;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** A column of a block, in Arrow's layout, at an address. The caller must call the getter of the column's type. */
abstract class BlockVector extends ColumnVector {
    /** The address of the bitmap of values that are not null; 0 if no value is null. */
    protected long valid;

    /** The memory of this column's buffers; the reference keeps it mapped while the column can be read. */
    private ByteBuffer block;

    BlockVector(DataType type) {
        super(type);
    }

    /** Takes the buffers of this column from the next block, which has {@code rows} rows. */
    final void read(BlockParts parts, int rows) {
        block = parts.block();
        valid = parts.next((rows + 7L) / 8, true);
        readValues(parts, rows);
    }

    protected abstract void readValues(BlockParts parts, int rows);

    @Override
    public final boolean isNullAt(int row) {
        return valid != 0 && (Platform.getByte(null, valid + (row >> 3)) >> (row & 7) & 1) == 0;
    }

    @Override
    public final boolean hasNull() {
        return valid != 0;
    }

    @Override
    public final int numNulls() {
        // Spark only checks whether there are any nulls.
        return valid == 0 ? 0 : 1;
    }

    @Override
    public void close() {}

    @Override
    public void closeIfFreeable() {
        // Frees nothing, since the next block reuses the memory.
    }

    @Override
    public boolean getBoolean(int row) {
        throw otherType();
    }

    @Override
    public byte getByte(int row) {
        throw otherType();
    }

    @Override
    public short getShort(int row) {
        throw otherType();
    }

    @Override
    public int getInt(int row) {
        throw otherType();
    }

    @Override
    public long getLong(int row) {
        throw otherType();
    }

    @Override
    public float getFloat(int row) {
        throw otherType();
    }

    @Override
    public double getDouble(int row) {
        throw otherType();
    }

    @Override
    public ColumnarArray getArray(int row) {
        throw otherType();
    }

    @Override
    public ColumnarMap getMap(int row) {
        throw otherType();
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
        throw otherType();
    }

    @Override
    public UTF8String getUTF8String(int row) {
        throw otherType();
    }

    @Override
    public byte[] getBinary(int row) {
        throw otherType();
    }

    @Override
    public ColumnVector getChild(int ordinal) {
        throw otherType();
    }

    private UnsupportedOperationException otherType() {
        return new UnsupportedOperationException("a column of " + type.simpleString() + " holds no such value");
    }
}
