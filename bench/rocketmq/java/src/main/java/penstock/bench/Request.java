package penstock.bench;

import java.util.HashMap;
import java.util.Map;

/** An order: its name, then {@code word=value}. */
final class Request {
    private final String name;
    private final Map<String, String> values = new HashMap<>();

    Request(String line) {
        String[] words = line.trim().split(" ");
        name = words[0];
        for (int at = 1; at < words.length; at++) {
            String[] pair = words[at].split("=", 2);
            values.put(pair[0], pair[1]);
        }
    }

    String name() {
        return name;
    }

    String text(String key) {
        String value = values.get(key);
        if (value == null) {
            throw new IllegalArgumentException(name + " needs " + key + "=");
        }
        return value;
    }

    int number(String key) {
        return Integer.parseInt(text(key));
    }

    long nanos(String key) {
        return (long) (Double.parseDouble(text(key)) * 1e9);
    }
}
