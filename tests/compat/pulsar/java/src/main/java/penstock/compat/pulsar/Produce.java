package penstock.compat.pulsar;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/** Producers, and what they send. */
final class Produce {
    private final Open open;

    Produce(Open open) {
        this.open = open;
    }

    void into(Map<String, Driver.Command> commands) {
        commands.put("producer", this::producer);
        commands.put("send", this::send);
        commands.put("there", this::there);
    }

    private Object producer(Request request) throws Exception {
        ProducerBuilder<byte[]> builder = open.client(request).newProducer()
                .topic(request.text("topic"))
                .blockIfQueueFull(true)
                .enableBatching(request.flag("batch"))
                .batchingMaxPublishDelay(20, TimeUnit.MILLISECONDS)
                .enableChunking(request.flag("chunk"))
                .accessMode(ProducerAccessMode.valueOf(request.text("access", "Shared")))
                .compressionType(CompressionType.valueOf(request.text("compress", "none").toUpperCase(Locale.ROOT)));
        if (request.has("name")) {
            builder.producerName(request.text("name"));
        }
        if (request.has("batch_max")) {
            builder.batchingMaxMessages(request.whole("batch_max", 0));
        }
        if (request.flag("by_key")) {
            builder.batcherBuilder(BatcherBuilder.KEY_BASED);
        }
        if (request.has("public_key")) {
            builder.cryptoKeyReader(Open.keys(request)).addEncryptionKey("key");
        }
        CompletableFuture<Producer<byte[]>> making = builder.createAsync();
        open.keep(request, request.flag("later") ? making : making.get());
        return true;
    }

    /** Whether one that is made later is there; from then on it is a producer like any other. */
    private Object there(Request request) throws Exception {
        CompletableFuture<Producer<byte[]>> making = open.get(request);
        if (making.isDone()) {
            open.put(request.whole("on", 0), making.get());
        }
        return making.isDone();
    }

    private Object send(Request request) throws Exception {
        Producer<byte[]> producer = open.get(request);
        List<CompletableFuture<MessageId>> told = new ArrayList<>();
        for (Request each : request.all("messages")) {
            told.add(message(producer, each).sendAsync());
        }
        producer.flush();
        List<Map<String, Object>> ids = new ArrayList<>();
        for (CompletableFuture<MessageId> each : told) {
            ids.add(Messages.id(each.get(30, TimeUnit.SECONDS)));
        }
        return ids;
    }

    private static TypedMessageBuilder<byte[]> message(Producer<byte[]> producer, Request request) {
        TypedMessageBuilder<byte[]> message = producer.newMessage().value(body(request));
        message.properties(request.pairs("properties"));
        if (request.has("key")) {
            message.key(request.text("key"));
        }
        if (request.has("ordering_key")) {
            message.orderingKey(request.text("ordering_key").getBytes(StandardCharsets.UTF_8));
        }
        if (request.has("deliver_after_ms")) {
            message.deliverAfter(request.number("deliver_after_ms", 0), TimeUnit.MILLISECONDS);
        }
        if (request.has("sequence")) {
            message.sequenceId(request.number("sequence", 0));
        }
        if (request.has("event_ms")) {
            message.eventTime(request.number("event_ms", 0));
        }
        return message;
    }

    /** Filled up with dots to its size. */
    private static byte[] body(Request request) {
        byte[] begin = request.text("body").getBytes(StandardCharsets.UTF_8);
        byte[] body = Arrays.copyOf(begin, Math.max(begin.length, request.whole("body_bytes", 0)));
        Arrays.fill(body, begin.length, body.length, (byte) '.');
        return body;
    }
}
