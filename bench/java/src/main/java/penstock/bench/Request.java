package penstock.bench;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;

/** An order: its name, then {@code word=value}. */
public final class Request {
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

    public String text(String key) {
        String value = values.get(key);
        if (value == null) {
            throw new IllegalArgumentException(name + " needs " + key + "=");
        }
        return value;
    }

    public int number(String key) {
        return Integer.parseInt(text(key));
    }

    public long nanos(String key) {
        return (long) (Double.parseDouble(text(key)) * 1e9);
    }

    /** Bytes that cannot be compressed. */
    public byte[] body() {
        byte[] body = new byte[number("bytes")];
        ThreadLocalRandom.current().nextBytes(body);
        return body;
    }
}
