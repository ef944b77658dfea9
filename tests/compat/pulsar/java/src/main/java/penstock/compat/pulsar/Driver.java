package penstock.compat.pulsar;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;

/** Drives Pulsar's client for Java: produce|refused|transaction URL TOPIC COUNT MODE. A line of JSON per message. */
public final class Driver {
    private static final int BODY_BYTES = 100;
    private static final int CHUNKED_BYTES = 12_000_000;
    private static final Map<String, CompressionType> COMPRESSED = Map.of(
            "lz4", CompressionType.LZ4,
            "zlib", CompressionType.ZLIB,
            "zstd", CompressionType.ZSTD,
            "snappy", CompressionType.SNAPPY);

    public static void main(String[] args) throws Exception {
        String what = args[0], url = args[1], topic = args[2], mode = args[4];
        int count = Integer.parseInt(args[3]);
        if (what.equals("transaction")) {
            transaction(url);
            return;
        }
        try (PulsarClient client = PulsarClient.builder().serviceUrl(url).build()) {
            if (what.equals("produce")) {
                produce(client, topic, count, mode);
            } else {
                refused(client, topic);
            }
        }
    }

    private static void produce(PulsarClient client, String topic, int count, String mode) throws Exception {
        try (Producer<byte[]> producer = producer(client, topic, mode).create()) {
            List<CompletableFuture<MessageId>> told = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                told.add(producer.newMessage()
                        .key("k" + number % 3)
                        .property("n", String.valueOf(number))
                        .value(body(number, mode))
                        .sendAsync());
            }
            producer.flush();
            for (CompletableFuture<MessageId> each : told) {
                MessageIdAdv where = (MessageIdAdv) each.get(30, TimeUnit.SECONDS);
                System.out.printf("{\"ok\": true, \"ledger\": %d, \"entry\": %d, \"batch\": %d}%n",
                        where.getLedgerId(), where.getEntryId(), where.getBatchIndex());
            }
        }
    }

    private static ProducerBuilder<byte[]> producer(PulsarClient client, String topic, String mode) {
        ProducerBuilder<byte[]> builder = client.newProducer().topic(topic).blockIfQueueFull(true);
        if (mode.equals("chunked")) {
            return builder.enableBatching(false).enableChunking(true);
        }
        return builder.enableBatching(!mode.equals("single"))
                .compressionType(COMPRESSED.getOrDefault(mode, CompressionType.NONE));
    }

    private static byte[] body(int number, String mode) {
        byte[] body = new byte[mode.equals("chunked") ? CHUNKED_BYTES : BODY_BYTES];
        byte[] begin = ("m-" + number + " ").getBytes(StandardCharsets.UTF_8);
        Arrays.fill(body, (byte) '.');
        System.arraycopy(begin, 0, body, 0, begin.length);
        return body;
    }

    /** What a producer is told that comes to a topic that another has for itself. */
    private static void refused(PulsarClient client, String topic) throws Exception {
        try (Producer<byte[]> alone = client.newProducer().topic(topic)
                .accessMode(ProducerAccessMode.Exclusive).create()) {
            client.newProducer().topic(topic).create();
        } catch (PulsarClientException error) {
            say(error);
        }
    }

    /** What a client is told that wants transactions. */
    private static void transaction(String url) {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(url).enableTransaction(true).build()) {
            client.newTransaction().build().get(30, TimeUnit.SECONDS);
        } catch (Exception error) {
            say(error);
        }
    }

    private static void say(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        System.out.printf("{\"error\": \"%s\"}%n", cause.getClass().getSimpleName());
    }
}
