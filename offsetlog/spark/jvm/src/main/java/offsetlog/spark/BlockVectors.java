package offsetlog.spark;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** The columns that the views have, by their types. */
final class BlockVectors {
    private BlockVectors() {}

    static BlockVector of(DataType type) {
        if (type instanceof IntegerType) {
            return new Ints(type);
        } else if (type instanceof LongType) {
            return new Longs(type);
        } else if (type instanceof BooleanType) {
            return new Booleans(type);
        } else if (type instanceof StringType || type instanceof BinaryType) {
            return new Strings(type);
        } else if (type instanceof ArrayType list) {
            return new Lists(list);
        } else if (type instanceof StructType struct) {
            return new Structs(struct);
        }
        throw new IllegalArgumentException("no view of offsetlog has a column of the type " + type.simpleString());
    }

    private static final class Ints extends BlockVector {
        private long data;

        Ints(DataType type) {
            super(type);
        }

        @Override
        protected void readValues(BlockParts parts, int rows) {
            data = parts.next(4L * rows, false);
        }

        @Override
        public int getInt(int row) {
            return Platform.getInt(null, data + 4L * row);
        }
    }

    private static final class Longs extends BlockVector {
        private long data;

        Longs(DataType type) {
            super(type);
        }

        @Override
        protected void readValues(BlockParts parts, int rows) {
            data = parts.next(8L * rows, false);
        }

        @Override
        public long getLong(int row) {
            return Platform.getLong(null, data + 8L * row);
        }
    }

    private static final class Booleans extends BlockVector {
        private long data;

        Booleans(DataType type) {
            super(type);
        }

        @Override
        protected void readValues(BlockParts parts, int rows) {
            data = parts.next((rows + 7L) / 8, false);
        }

        @Override
        public boolean getBoolean(int row) {
            return (Platform.getByte(null, data + (row >> 3)) >> (row & 7) & 1) != 0;
        }
    }

    private static final class Strings extends BlockVector {
        private long ends;
        private long data;

        Strings(DataType type) {
            super(type);
        }

        @Override
        protected void readValues(BlockParts parts, int rows) {
            ends = parts.next(4L * (rows + 1), false);
            int first = Platform.getInt(null, ends);
            data = parts.next(Platform.getInt(null, ends + 4L * rows) - (long) first, false) - first;
        }

        @Override
        public UTF8String getUTF8String(int row) {
            int start = Platform.getInt(null, ends + 4L * row);
            return UTF8String.fromAddress(null, data + start, Platform.getInt(null, ends + 4L * row + 4) - start);
        }

        @Override
        public byte[] getBinary(int row) {
            int start = Platform.getInt(null, ends + 4L * row);
            byte[] bytes = new byte[Platform.getInt(null, ends + 4L * row + 4) - start];
            Platform.copyMemory(null, data + start, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
            return bytes;
        }
    }

    private static final class Lists extends BlockVector {
        private final BlockVector elements;
        private long ends;
        private int first;

        Lists(ArrayType type) {
            super(type);
            elements = of(type.elementType());
        }

        @Override
        protected void readValues(BlockParts parts, int rows) {
            ends = parts.next(4L * (rows + 1), false);
            first = Platform.getInt(null, ends);
            elements.read(parts, Platform.getInt(null, ends + 4L * rows) - first);
        }

        @Override
        public ColumnarArray getArray(int row) {
            int start = Platform.getInt(null, ends + 4L * row);
            return new ColumnarArray(elements, start - first, Platform.getInt(null, ends + 4L * row + 4) - start);
        }
    }

    private static final class Structs extends BlockVector {
        private final BlockVector[] children;

        Structs(StructType type) {
            super(type);
            StructField[] fields = type.fields();
            children = new BlockVector[fields.length];
            for (int i = 0; i < fields.length; i++) {
                children[i] = of(fields[i].dataType());
            }
        }

        @Override
        protected void readValues(BlockParts parts, int rows) {
            for (BlockVector child : children) {
                child.read(parts, rows);
            }
        }

        @Override
        public ColumnVector getChild(int ordinal) {
            return children[ordinal];
        }
    }
}
