package penstock.compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Messages that can be told apart: {@code --label L --count N [--body-bytes N] [--keys] [--tags A,B] [--properties]
 * [--delay-level L] [--delay-ms N] [--delay-sec N] [--deliver-in-ms N]}. Number i has the body "L-i", filled up to --body-bytes, the key "key-L-i", the tags in
 * turn, and the properties number=i and colour=blue or red.
 */
final class Messages {
    private static final String FILLING = "0123456789abcdef";

    private Messages() {
    }

    static List<Message> numbered(Options options) {
        List<Message> messages = new ArrayList<>();
        for (int number = 0; number < options.number("count", 1); number++) {
            messages.add(numbered(options, number));
        }
        return messages;
    }

    static Message numbered(Options options, int number) {
        String name = options.text("label", "m") + "-" + number;
        Message message = new Message(options.text("topic"), body(name, options.number("body-bytes", 0)));
        if (options.has("tags")) {
            String[] tags = options.text("tags").split(",");
            message.setTags(tags[number % tags.length]);
        }
        if (options.has("keys")) {
            message.setKeys("key-" + name);
        }
        if (options.has("properties")) {
            message.putUserProperty("number", Integer.toString(number));
            message.putUserProperty("colour", number % 2 == 0 ? "blue" : "red");
        }
        if (options.has("delay-level")) {
            message.setDelayTimeLevel(options.number("delay-level", 1));
        }
        if (options.has("delay-ms")) { // 4.9.8 has no setter for it
            MessageAccessor.putProperty(message, "TIMER_DELAY_MS", options.text("delay-ms"));
        }
        if (options.has("delay-sec")) {
            MessageAccessor.putProperty(message, "TIMER_DELAY_SEC", options.text("delay-sec"));
        }
        if (options.has("deliver-in-ms")) {
            long deliverMs = System.currentTimeMillis() + options.number("deliver-in-ms", 0);
            MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", Long.toString(deliverMs));
        }
        return message;
    }

    private static byte[] body(String name, int bodyBytes) {
        StringBuilder text = new StringBuilder(name);
        if (text.length() < bodyBytes) {
            text.append(' ');
        }
        while (text.length() < bodyBytes) {
            text.append(FILLING, 0, Math.min(FILLING.length(), bodyBytes - text.length()));
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    /** An empty body comes as none. */
    private static String text(byte[] body) {
        return body == null ? "" : new String(body, StandardCharsets.UTF_8);
    }

    static void print(MessageExt message) {
        Line.of().with("topic", message.getTopic())
            .with("msgId", message.getMsgId())
            .with("queueId", message.getQueueId())
            .with("queueOffset", message.getQueueOffset())
            .with("keys", message.getKeys())
            .with("tags", message.getTags())
            .with("body", text(message.getBody()))
            .with("reconsumeTimes", message.getReconsumeTimes())
            .with("bornTimestamp", message.getBornTimestamp())
            .with("storeTimestamp", message.getStoreTimestamp())
            .with("sysFlag", message.getSysFlag())
            .with("storeSize", message.getStoreSize())
            .with("properties", message.getProperties())
            .print();
    }
}
