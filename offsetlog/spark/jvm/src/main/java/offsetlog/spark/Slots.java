package offsetlog.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** The slots that a Python process writes blocks to and this JVM has mapped, as the process says when it has connected. */
final class Slots {
    /** The size of what each release begins with, so that one is refused before anything of it is believed. */
    static final int VERSION_BYTES = 8;
    /** The size of what follows. */
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
     * Checks the first bytes of a process.
     *
     * @throws LogReadException the process is of another release than this jar
     */
    static void checkVersion(ByteBuffer hello) {
        int protocol = hello.getInt(0) == MAGIC ? hello.getInt(4) : 0;
        if (protocol != PROTOCOL) {
            throw LogReadException.ofOtherRelease("the Python process of a task has version " + protocol
                    + " of the protocol, and the jar has version " + PROTOCOL);
        }
    }

    /**
     * Maps the memory of a process: its id and descriptor, the number of slots and the bytes of each.
     *
     * @throws IOException the memory cannot be mapped
     * @throws LogReadException it is of another size than the process says
     */
    static Slots map(ByteBuffer place) throws IOException {
        int count = place.getInt(8);
        int bytes = place.getInt(12);
        // The memory has no name, so that none is left whatever ends first.
        Path file = Path.of("/proc", Integer.toString(place.getInt(0)), "fd", Integer.toString(place.getInt(4)));
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            if (count <= 0 || bytes <= 0 || channel.size() != (long) count * bytes) {
                throw LogReadException.ofOtherRelease("the memory of a task has " + channel.size()
                        + " bytes, and its Python process says " + count + " slots of " + bytes);
            }
            return new Slots(channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()), count, bytes);
        }
    }

    /**
     * Returns the block in a slot.
     *
     * @throws LogReadException there is no such slot, or it is not so large
     */
    ByteBuffer block(int slot, int size) {
        if (slot >= count || size < 0 || size > bytes) {
            throw LogReadException.ofOtherRelease("a block of " + size + " bytes is said to be in slot " + slot);
        }
        return memory.slice(slot * bytes, size).order(ByteOrder.nativeOrder());
    }
}
