package penstock.compat.pulsar;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A command's fields. What is not there has a default. */
record Request(JsonObject fields) {
    boolean has(String name) {
        return fields.has(name) && !fields.get(name).isJsonNull();
    }

    String text(String name) {
        return text(name, null);
    }

    String text(String name, String otherwise) {
        return has(name) ? fields.get(name).getAsString() : otherwise;
    }

    long number(String name, long otherwise) {
        return has(name) ? fields.get(name).getAsLong() : otherwise;
    }

    int whole(String name, int otherwise) {
        return has(name) ? fields.get(name).getAsInt() : otherwise;
    }

    boolean flag(String name) {
        return has(name) && fields.get(name).getAsBoolean();
    }

    Request inner(String name) {
        return new Request(has(name) ? fields.getAsJsonObject(name) : new JsonObject());
    }

    boolean isText(String name) {
        return has(name) && fields.get(name).isJsonPrimitive() && fields.getAsJsonPrimitive(name).isString();
    }

    List<Request> all(String name) {
        List<Request> found = new ArrayList<>();
        for (JsonElement each : has(name) ? fields.getAsJsonArray(name).asList() : List.<JsonElement>of()) {
            found.add(new Request(each.getAsJsonObject()));
        }
        return found;
    }

    List<Integer> wholes(String name) {
        List<Integer> found = new ArrayList<>();
        for (JsonElement each : has(name) ? fields.getAsJsonArray(name).asList() : List.<JsonElement>of()) {
            found.add(each.getAsInt());
        }
        return found;
    }

    List<String> texts(String name) {
        List<String> found = new ArrayList<>();
        for (JsonElement each : has(name) ? fields.getAsJsonArray(name).asList() : List.<JsonElement>of()) {
            found.add(each.getAsString());
        }
        return found;
    }

    Map<String, String> pairs(String name) {
        Map<String, String> found = new HashMap<>();
        if (has(name)) {
            fields.getAsJsonObject(name).asMap().forEach((key, value) -> found.put(key, value.getAsString()));
        }
        return found;
    }
}
