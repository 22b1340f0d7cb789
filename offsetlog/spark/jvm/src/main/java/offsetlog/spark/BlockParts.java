package offsetlog.spark;

/** The buffers of one block, in the order in which its columns take them. */
final class BlockParts {
    static final String OTHER_VERSION =
            "a block is not what was expected: the jar and the Python package are of different versions";

    private final long[] sizes;
    private final long limit;
    private long address;
    private int at;

    /**
     * Begins at the first buffer.
     *
     * @param address of the block, which begins with the sizes
     * @param bytes of the block
     */
    BlockParts(long address, long bytes, long[] sizes) {
        this.address = address + 8L * sizes.length;
        this.limit = address + bytes;
        this.sizes = sizes;
    }

    /**
     * Returns the address of the next buffer, 0 where one that may be absent is empty.
     *
     * @param least how many bytes it must have
     */
    long next(long least, boolean mayBeAbsent) {
        long size = at < sizes.length ? sizes[at] : -1;
        if (size == 0 && mayBeAbsent) {
            at++;
            return 0;
        }
        if (least < 0 || size < least || size > limit - address) {
            throw new LogReadException(OTHER_VERSION, null);
        }
        long found = address;
        address += (size + 7) / 8 * 8;
        at++;
        return found;
    }
}
