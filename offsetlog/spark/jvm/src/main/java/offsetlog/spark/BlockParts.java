package offsetlog.spark;

import java.nio.ByteBuffer;

/** The buffers of one block. The columns take them one after another. */
final class BlockParts {
    private static final String UNEXPECTED = "a block does not have the expected columns";

    private final ByteBuffer block;
    private final long[] sizes;
    private final long limit;
    private long address;
    private int at;

    /**
     * Begins at the first buffer.
     *
     * @param block the block, which begins with the sizes in the machine's byte order; null if there is none
     * @param count the number of buffers
     * @throws LogReadException the block is too small for the sizes
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

    /** Returns the memory of the block; it stays mapped as long as this reference is kept. */
    ByteBuffer block() {
        return block;
    }

    /**
     * Returns the address of the next buffer; 0 if the buffer is optional and empty.
     *
     * @param expected the size that it must have, in bytes
     * @throws LogReadException the buffer has another size, or there is no next buffer
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
     * Checks that the columns have taken all buffers, since a buffer that is left would belong to an unknown column.
     *
     * @throws LogReadException some buffers are left
     */
    void end() {
        if (at != sizes.length || address != limit) {
            throw LogReadException.ofOtherRelease(UNEXPECTED);
        }
    }
}
