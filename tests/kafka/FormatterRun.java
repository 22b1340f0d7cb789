import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.HexFormat;

/**
 * Prints records with a formatter of whatever Kafka is on the class path: {@code FormatterRun CLASS}.
 *
 * <p>Each line of the input is a key and a value in hex, "-" for null; each line of the output has the bytes that the
 * formatter printed for them, in hex. Kafka's classes are looked up by name, since the interface of formatters has
 * moved.
 */
public final class FormatterRun {
    private final Object formatter;
    private final Method write;

    private FormatterRun(String name) throws ReflectiveOperationException {
        Class<?> type = Class.forName(name);
        Constructor<?> constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        formatter = constructor.newInstance();
        write = writeMethod(type);
        write.setAccessible(true);
    }

    public static void main(String[] arguments) throws Exception {
        FormatterRun run = new FormatterRun(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            System.out.println(HexFormat.of().formatHex(run.print(bytes(parts[0]), bytes(parts[1]))));
        }
    }

    private byte[] print(byte[] key, byte[] value) throws ReflectiveOperationException {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(printed);
        if (write.getParameterCount() == 3) {
            write.invoke(formatter, key, value, stream);
        } else {
            write.invoke(formatter, record(write.getParameterTypes()[0], key, value), stream);
        }
        stream.flush();
        return printed.toByteArray();
    }

    private static Object record(Class<?> type, byte[] key, byte[] value) throws ReflectiveOperationException {
        return type.getConstructor(String.class, int.class, long.class, Object.class, Object.class)
                .newInstance("topic", 0, 0L, key, value);
    }

    private static Method writeMethod(Class<?> type) {
        for (Method each : type.getMethods()) {
            if (each.getName().equals("writeTo") && !each.isBridge()) {
                return each;
            }
        }
        throw new IllegalArgumentException(type + " has no writeTo");
    }

    private static byte[] bytes(String hex) {
        return hex.equals("-") ? null : HexFormat.of().parseHex(hex);
    }
}
