package penstock.compat.pulsar;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.impl.BatchMessageIdImpl;
import org.apache.pulsar.client.impl.MessageIdImpl;
import org.apache.pulsar.common.util.ObjectMapperFactory;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Drives the client that pulsar-admin is made of: any method of it, by its name. {"on": "topics", "name": "getStats",
 * "args": ["orders"]} is answered with {"ok": ...} or {"error": the exception, "why": ..., "status": ...}.
 *
 * Arguments become what the method takes as the client's own JSON would; a message's id is {"ledger", "entry", "batch",
 * "partition"} or "earliest" or "latest". Of several methods of a name the first is called that takes the arguments.
 */
public final class Admin {
    private static final ObjectMapper JSON = ObjectMapperFactory.create();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(args[0]).build();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(answer(admin, JSON.readValue(line, Map.class))));
        }
        System.exit(0);
    }

    private static Map<String, Object> answer(PulsarAdmin admin, Map<?, ?> asked) {
        Map<String, Object> answer = new HashMap<>();
        try {
            answer.put("ok", told(call(admin, asked)));
        } catch (InvocationTargetException wrapped) {
            Throwable cause = wrapped.getCause();
            answer.put("error", cause.getClass().getSimpleName());
            answer.put("why", String.valueOf(cause.getMessage()));
            if (cause instanceof PulsarAdminException refused) {
                answer.put("status", refused.getStatusCode());
            }
        } catch (Exception error) {
            answer.put("error", error.getClass().getSimpleName());
            answer.put("why", String.valueOf(error.getMessage()));
        }
        return answer;
    }

    private static Object call(PulsarAdmin admin, Map<?, ?> asked) throws Exception {
        Method part = PulsarAdmin.class.getMethod((String) asked.get("on"));
        List<?> given = (List<?>) asked.get("args");
        Method[] methods = part.getReturnType().getMethods();
        Arrays.sort(methods, Comparator.comparing(Method::toString));
        for (Method method : methods) {
            if (method.getName().equals(asked.get("name")) && method.getParameterCount() == given.size()) {
                Object[] arguments = arguments(method.getGenericParameterTypes(), given);
                if (arguments != null) {
                    return method.invoke(part.invoke(admin), arguments);
                }
            }
        }
        throw new UnsupportedOperationException(asked.get("on") + "." + asked.get("name") + given);
    }

    /** null: the method does not take these. */
    private static Object[] arguments(Type[] types, List<?> given) {
        Object[] arguments = new Object[types.length];
        for (int at = 0; at < types.length; at++) {
            Object value = given.get(at);
            try {
                arguments[at] = types[at] == MessageId.class ? id(value) : JSON.convertValue(value, JSON.constructType(types[at]));
            } catch (IllegalArgumentException | ClassCastException other) {
                return null;
            }
        }
        return arguments;
    }

    private static MessageId id(Object value) {
        if (value instanceof String name) {
            return name.equals("earliest") ? MessageId.earliest : MessageId.latest;
        }
        Map<?, ?> fields = (Map<?, ?>) value;
        long ledger = number(fields, "ledger"), entry = number(fields, "entry");
        int partition = (int) number(fields, "partition"), batch = (int) number(fields, "batch");
        return batch < 0
                ? new MessageIdImpl(ledger, entry, partition)
                : new BatchMessageIdImpl(ledger, entry, partition, batch);
    }

    private static long number(Map<?, ?> fields, String name) {
        return fields.get(name) instanceof Number number ? number.longValue() : -1;
    }

    private static Object told(Object value) {
        if (value instanceof Message<?> message) {
            Map<String, Object> told = told((MessageIdAdv) message.getMessageId());
            told.put("body", new String(message.getData(), StandardCharsets.UTF_8));
            told.put("key", message.getKey());
            told.put("properties", message.getProperties());
            told.put("publish_ms", message.getPublishTime());
            return told;
        }
        if (value instanceof MessageIdAdv id) {
            return told(id);
        }
        if (value instanceof Collection<?> several) {
            List<Object> all = new ArrayList<>();
            several.forEach(each -> all.add(told(each)));
            return all;
        }
        return JSON.valueToTree(value);
    }

    private static Map<String, Object> told(MessageIdAdv id) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("ledger", id.getLedgerId());
        told.put("entry", id.getEntryId());
        told.put("batch", id.getBatchIndex());
        told.put("partition", id.getPartitionIndex());
        return told;
    }
}
