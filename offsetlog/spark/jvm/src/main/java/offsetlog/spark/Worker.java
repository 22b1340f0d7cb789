package offsetlog.spark;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * A Python process that executes tasks, one after another, and sends the rows as blocks.
 *
 * <p>One thread at a time may use it. The process ends when its connection is closed, and thus also when this JVM ends.
 */
final class Worker implements AutoCloseable {
    private static final long START_NANOS = TimeUnit.SECONDS.toNanos(120);
    /** How long to wait before checking again whether the task was cancelled. */
    private static final long LOOK_MILLIS = 100;
    private static final int PLACE_LENGTH_MAX = 60;

    /** Memory for blocks that are too large for a slot; kept for the next task. */
    final Memory memory = new Memory();
    final Slots slots;

    private final Process process;
    private final WorkerErrors errors;
    private final SocketChannel channel;
    private final Selector selector;

    private Worker(Process process, WorkerErrors errors, SocketChannel channel, BooleanSupplier isUnwanted)
            throws IOException {
        this.process = process;
        this.errors = errors;
        this.channel = channel;
        channel.configureBlocking(false);
        selector = Selector.open();
        try {
            channel.register(selector, SelectionKey.OP_READ);
            Slots.checkVersion(said(Slots.VERSION_BYTES, isUnwanted));
            slots = Slots.map(said(Slots.PLACE_BYTES, isUnwanted));
        } catch (Throwable failure) {
            selector.close();
            throw failure;
        }
    }

    private ByteBuffer said(int size, BooleanSupplier isUnwanted) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(size).order(ByteOrder.nativeOrder());
        read(bytes, isUnwanted);
        return bytes;
    }

    /**
     * Starts a process and waits until it has connected.
     *
     * @param isUnwanted returns whether the task was cancelled; it is called repeatedly during the wait, and may throw
     * @throws IOException the process cannot be started, or did not connect; in this case, it is not left running
     * @throws LogReadException the process is of another release than this jar
     */
    static Worker start(WorkerCommand command, BooleanSupplier isUnwanted) throws IOException {
        Path directory = socketDirectory();
        Path socket = directory.resolve("socket");
        Process process = null;
        SocketChannel channel = null;
        try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            server.bind(UnixDomainSocketAddress.of(socket));
            process = command.processFor(socket.toString()).start();
            WorkerErrors errors = WorkerErrors.follow(process);
            channel = accept(server, process, errors, isUnwanted);
            return new Worker(process, errors, channel, isUnwanted);
        } catch (Throwable failure) {
            if (process != null) {
                process.destroyForcibly();
            }
            if (channel != null) {
                channel.close();
            }
            throw failure;
        } finally {
            Files.deleteIfExists(socket);
            Files.deleteIfExists(directory);
        }
    }

    /** Creates a directory that only this user can read. */
    private static Path socketDirectory() throws IOException {
        Path place = Path.of(System.getProperty("java.io.tmpdir")).toAbsolutePath();
        // The length of a socket's path is limited, and the temporary directories of containers may have longer paths.
        boolean isShort = place.toString().length() <= PLACE_LENGTH_MAX;
        return Files.createTempDirectory(isShort ? place : Path.of("/tmp"), "offsetlog");
    }

    private static SocketChannel accept(
            ServerSocketChannel server, Process process, WorkerErrors errors, BooleanSupplier isUnwanted)
            throws IOException {
        long until = System.nanoTime() + START_NANOS;
        server.configureBlocking(false);
        try (Selector selector = Selector.open()) {
            server.register(selector, SelectionKey.OP_ACCEPT);
            while (true) {
                selector.select(LOOK_MILLIS);
                SocketChannel channel = server.accept();
                if (channel != null) {
                    return channel;
                }
                if (!process.isAlive()) {
                    String how = errors.end(process);
                    String hint = process.exitValue() == 1
                            ? "; PYSPARK_PYTHON must name an interpreter that has offsetlog on every executor"
                            : "";
                    throw new IOException("the Python process of a task " + how + hint);
                }
                if (isUnwanted.getAsBoolean() || System.nanoTime() - until > 0) {
                    throw new IOException("the Python process of a task did not connect");
                }
            }
        }
    }

    /**
     * Reads until a buffer is full.
     *
     * @throws IOException the process ended, or the task was cancelled
     */
    void read(ByteBuffer target, BooleanSupplier isUnwanted) throws IOException {
        while (target.hasRemaining()) {
            int count = moved(() -> channel.read(target));
            if (count == 0) {
                selector.select(LOOK_MILLIS);
                selector.selectedKeys().clear();
                if (isUnwanted.getAsBoolean()) {
                    throw new IOException("this task was cancelled");
                }
            }
        }
    }

    /**
     * Writes bytes that the process waits for and reads at once.
     *
     * @throws IOException as {@link #read}
     */
    void write(ByteBuffer bytes, BooleanSupplier isUnwanted) throws IOException {
        while (bytes.hasRemaining()) {
            if (moved(() -> channel.write(bytes)) == 0) {
                if (isUnwanted.getAsBoolean()) {
                    throw new IOException("this task was cancelled");
                }
                Thread.onSpinWait();
            }
        }
    }

    /** Moves bytes over the connection. If it is broken, throws an exception that says how the process ended. */
    private int moved(Callable<Integer> move) throws IOException {
        int count = -1;
        try {
            count = move.call();
        } catch (ClosedChannelException interrupted) {
            throw interrupted;
        } catch (Exception broken) {
            // Treated like the end of the connection.
        }
        if (count < 0) {
            throw new IOException("the Python process of this task " + errors.end(process));
        }
        return count;
    }

    boolean isAlive() {
        return process.isAlive();
    }

    /** Ends the process at once. */
    @Override
    public void close() {
        process.destroyForcibly();
        try (channel; selector) {
            // Only closes the two resources.
        } catch (IOException ignored) {
            // The connection is closed in any case.
        }
    }
}
