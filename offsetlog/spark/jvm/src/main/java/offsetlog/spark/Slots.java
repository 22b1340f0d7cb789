package offsetlog.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The slots to which a Python process writes blocks. The first message of the process (hello) describes them. */
final class Slots {
    /** The size of the part of the hello that is the same in every release; it is checked before the rest is read. */
    static final int VERSION_BYTES = 8;
    /** The size of the rest of the hello. */
    static final int PLACE_BYTES = 16;

    private static final int MAGIC = 0x4f4c4257;
    private static final int PROTOCOL = 1;

    private final MappedByteBuffer memory;
    private final int count;
    private final int bytes;

    private Slots(MappedByteBuffer memory, int count, int bytes) {
        this.memory = memory;
        this.count = count;
        this.bytes = bytes;
    }

    /**
     * Checks the first bytes that a process sends.
     *
     * @throws LogReadException the process is of another release than this jar
     */
    static void checkVersion(ByteBuffer hello) {
        int protocol = hello.getInt(0) == MAGIC ? hello.getInt(4) : 0;
        if (protocol != PROTOCOL) {
            throw LogReadException.ofOtherRelease("the Python process of a task has version " + protocol
                    + " of the protocol, but the jar has version " + PROTOCOL);
        }
    }

    /**
     * Maps the memory of a process, given the process id, the file descriptor, the number of slots, and their size.
     *
     * @throws IOException the memory cannot be mapped
     * @throws LogReadException the memory does not have the size that the process says
     */
    static Slots map(ByteBuffer place) throws IOException {
        int count = place.getInt(8);
        int bytes = place.getInt(12);
        // The memory has no name in a file system, so it is freed when both processes have ended, whichever ends first.
        Path file = Path.of("/proc", Integer.toString(place.getInt(0)), "fd", Integer.toString(place.getInt(4)));
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            if (count <= 0 || bytes <= 0 || channel.size() != (long) count * bytes) {
                throw LogReadException.ofOtherRelease("the memory of a task has " + channel.size()
                        + " bytes, but its Python process says " + count + " slots of " + bytes);
            }
            return new Slots(channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()), count, bytes);
        }
    }

    /**
     * Returns the block in a slot.
     *
     * @throws LogReadException there is no such slot, or the block is larger than a slot
     */
    ByteBuffer block(int slot, int size) {
        if (slot >= count || size < 0 || size > bytes) {
            throw LogReadException.ofOtherRelease("a block of " + size + " bytes cannot be in slot " + slot);
        }
        return memory.slice(slot * bytes, size).order(ByteOrder.nativeOrder());
    }
}
