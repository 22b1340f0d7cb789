package offsetlog.spark;

import java.nio.ByteBuffer;

/** The buffers of one block, in the order in which its columns take them. */
final class BlockParts {
    private static final String UNEXPECTED = "a block is not what was expected";

    private final ByteBuffer block;
    private final long[] sizes;
    private final long limit;
    private long address;
    private int at;

    /**
     * Begins at the first buffer.
     *
     * @param block begins with the sizes, in the order of the machine; null where there is none
     * @param count of the buffers
     * @throws LogReadException the block has no room for the sizes
     */
    BlockParts(ByteBuffer block, int count) {
        if (block == null || count < 0 || block.limit() < 8L * count) {
            throw LogReadException.ofOtherRelease(UNEXPECTED);
        }
        this.block = block;
        sizes = new long[count];
        block.asLongBuffer().get(sizes);
        long start = Memory.addressOf(block);
        address = start + 8L * count;
        limit = start + block.limit();
    }

    /** Returns the memory of the block, which is there as long as this is kept. */
    ByteBuffer block() {
        return block;
    }

    /**
     * Returns the address of the next buffer, 0 where one that may be absent is empty.
     *
     * @param expected how many bytes it must have
     * @throws LogReadException it has another size, or there is none
     */
    long next(long expected, boolean mayBeAbsent) {
        long size = at < sizes.length ? sizes[at] : -1;
        if (size == 0 && mayBeAbsent) {
            at++;
            return 0;
        }
        if (expected < 0 || size != expected || size > limit - address) {
            throw LogReadException.ofOtherRelease(UNEXPECTED);
        }
        long found = address;
        address += (size + 7) / 8 * 8;
        at++;
        return found;
    }

    /**
     * Ends with the last column: a buffer that no column took would be a column that is not known here.
     *
     * @throws LogReadException some are left
     */
    void end() {
        if (at != sizes.length || address != limit) {
            throw LogReadException.ofOtherRelease(UNEXPECTED);
        }
    }
}
