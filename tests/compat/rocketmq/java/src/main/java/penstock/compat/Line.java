package penstock.compat;

import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;

/** One JSON object on a line of its own: {@code Line.of().with("queueId", 3).print()}. Threads may print at once. */
final class Line {
    /** Kept from the beginning: mqadmin's output is caught by replacing System.out. */
    private static final PrintStream OUT = System.out;

    private final Map<String, Object> fields = new LinkedHashMap<>();

    static Line of() {
        return new Line();
    }

    Line with(String name, Object value) {
        fields.put(name, value);
        return this;
    }

    void print() {
        StringBuilder text = new StringBuilder();
        write(text, fields);
        synchronized (OUT) {
            OUT.println(text);
            OUT.flush();
        }
    }

    private static void write(StringBuilder text, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            text.append(value);
        } else if (value instanceof Map) {
            writeObject(text, (Map<?, ?>) value);
        } else {
            writeText(text, value.toString());
        }
    }

    private static void writeObject(StringBuilder text, Map<?, ?> object) {
        String separator = "{";
        for (Map.Entry<?, ?> field : object.entrySet()) {
            text.append(separator);
            writeText(text, field.getKey().toString());
            text.append(':');
            write(text, field.getValue());
            separator = ",";
        }
        text.append(object.isEmpty() ? "{}" : "}");
    }

    private static void writeText(StringBuilder text, String value) {
        text.append('"');
        for (char unit : value.toCharArray()) {
            if (unit < ' ' || unit > '~' || unit == '"' || unit == '\\') {
                text.append(String.format("\\u%04x", (int) unit));
            } else {
                text.append(unit);
            }
        }
        text.append('"');
    }
}
