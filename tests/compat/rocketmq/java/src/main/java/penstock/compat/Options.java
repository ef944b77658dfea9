package penstock.compat;

import java.util.HashMap;
import java.util.Map;

/** Options as {@code --name value}, and {@code --name} alone for a switch. */
final class Options {
    private final Map<String, String> values = new HashMap<>();

    Options(String[] args) {
        for (int at = 0; at < args.length; at++) {
            if (!args[at].startsWith("--")) {
                throw new IllegalArgumentException("not an option: " + args[at]);
            }
            boolean alone = at + 1 == args.length || args[at + 1].startsWith("--");
            values.put(args[at].substring(2), alone ? "true" : args[++at]);
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is needed");
        }
        return value;
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        return values.containsKey(name) ? Integer.parseInt(values.get(name)) : otherwise;
    }

    boolean has(String name) {
        return values.containsKey(name);
    }
}
