package offsetlog.spark;

import java.lang.reflect.Field;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import sun.misc.Unsafe;

/** Memory outside of the heap. A channel fills it; columns read it through addresses. It grows until it is trimmed. */
final class Memory {
    /** The most bytes that are kept for the next task. */
    private static final int KEPT_BYTES = 32 << 20;

    private static final Unsafe UNSAFE = unsafe();
    private static final long ADDRESS = addressField();

    private ByteBuffer buffer = ByteBuffer.allocateDirect(0);

    /** Returns a buffer of {@code size} bytes, in the machine's byte order; its previous content is lost. */
    ByteBuffer room(int size) {
        if (buffer.capacity() < size) {
            buffer = ByteBuffer.allocateDirect(size);
        }
        return buffer.clear().limit(size).order(ByteOrder.nativeOrder());
    }

    /** Releases memory that a task with very large rows needed. */
    void trim() {
        if (buffer.capacity() > KEPT_BYTES) {
            buffer = ByteBuffer.allocateDirect(0);
        }
    }

    /** Returns the address of a direct buffer. */
    static long addressOf(Buffer buffer) {
        return UNSAFE.getLong(buffer, ADDRESS);
    }

    private static long addressField() {
        try {
            return UNSAFE.objectFieldOffset(Buffer.class.getDeclaredField("address"));
        } catch (NoSuchFieldException absent) {
            throw new IllegalStateException("this Java does not show the address of a direct buffer", absent);
        }
    }

    private static Unsafe unsafe() {
        try {
            Field field = Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return (Unsafe) field.get(null);
        } catch (ReflectiveOperationException absent) {
            throw new IllegalStateException("this Java has no sun.misc.Unsafe, which Spark itself needs", absent);
        }
    }
}
