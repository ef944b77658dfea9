package penstock.compat.pulsar;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;

/** What was received: kept, so that a test can name it by its number, and told as JSON. */
final class Messages {
    private static final int SHOWN_BYTES = 200;
    private final List<Message<byte[]>> kept = new ArrayList<>();

    Message<byte[]> get(int number) {
        return kept.get(number);
    }

    Map<String, Object> take(Message<byte[]> message) {
        Map<String, Object> told = new LinkedHashMap<>(id(message.getMessageId()));
        byte[] body = message.getData();
        CRC32 sum = new CRC32();
        sum.update(body);
        told.put("number", kept.size());
        told.put("body", new String(body, 0, Math.min(body.length, SHOWN_BYTES), StandardCharsets.UTF_8));
        told.put("bytes", body.length);
        told.put("crc", sum.getValue());
        told.put("key", message.getKey());
        told.put("ordering_key", message.hasOrderingKey() ? new String(message.getOrderingKey(), StandardCharsets.UTF_8) : null);
        told.put("properties", message.getProperties());
        told.put("redelivered", message.getRedeliveryCount());
        told.put("topic", message.getTopicName());
        told.put("publish_ms", message.getPublishTime());
        told.put("event_ms", message.getEventTime());
        told.put("encrypted", message.getEncryptionCtx().isPresent());
        kept.add(message);
        return told;
    }

    /** Where a request says: at an end, or at a message that was received. */
    MessageId position(Request request) {
        return switch (request.text("to", "")) {
            case "earliest" -> MessageId.earliest;
            case "latest" -> MessageId.latest;
            default -> kept.get(request.whole("number", 0)).getMessageId();
        };
    }

    static Map<String, Object> id(MessageId id) {
        MessageIdAdv where = (MessageIdAdv) id;
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("ledger", where.getLedgerId());
        told.put("entry", where.getEntryId());
        told.put("batch", where.getBatchIndex());
        told.put("partition", where.getPartitionIndex());
        return told;
    }
}
