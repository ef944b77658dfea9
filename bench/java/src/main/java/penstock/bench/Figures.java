package penstock.bench;

import java.util.LinkedHashMap;
import java.util.Map;

/** What was measured, as one JSON object. */
public final class Figures {
    private final Map<String, Object> fields = new LinkedHashMap<>();

    public Figures with(String name, Object value) {
        fields.put(name, value);
        return this;
    }

    String json() {
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, Object> field : fields.entrySet()) {
            text.append(text.isEmpty() ? "{" : ",").append(quoted(field.getKey())).append(':');
            text.append(field.getValue() instanceof Number ? field.getValue() : quoted(String.valueOf(field.getValue())));
        }
        return text.append('}').toString();
    }

    private static String quoted(String value) {
        StringBuilder text = new StringBuilder("\"");
        for (char unit : value.toCharArray()) {
            boolean plain = unit >= ' ' && unit <= '~' && unit != '"' && unit != '\\';
            text.append(plain ? String.valueOf(unit) : String.format("\\u%04x", (int) unit));
        }
        return text.append('"').toString();
    }
}
