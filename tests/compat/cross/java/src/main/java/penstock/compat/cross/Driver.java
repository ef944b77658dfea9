package penstock.compat.cross;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/**
 * Pulsar's client for Java, for what crosses to RocketMQ's: {@code consume URL TOPIC COUNT} prints a line of JSON per
 * message, {@code nulls URL TOPIC COUNT} sends messages that have a key and no value.
 */
public final class Driver {
    private static final int WAIT_S = 30;

    private Driver() {
    }

    public static void main(String[] args) throws Exception {
        String topic = args[2];
        int count = Integer.parseInt(args[3]);
        try (PulsarClient client = PulsarClient.builder().serviceUrl(args[1]).build()) {
            if (args[0].equals("consume")) {
                consume(client, topic, count);
            } else {
                nulls(client, topic, count);
            }
        }
    }

    private static void consume(PulsarClient client, String topic, int count) throws Exception {
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("java")
                .subscriptionType(SubscriptionType.Shared)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int number = 0; number < count; number++) {
                Message<byte[]> message = consumer.receive(WAIT_S, TimeUnit.SECONDS);
                if (message == null) {
                    throw new IllegalStateException("nothing came for " + WAIT_S + " s");
                }
                print(message);
                consumer.acknowledge(message);
            }
        }
    }

    private static void print(Message<byte[]> message) {
        StringBuilder properties = new StringBuilder();
        for (Map.Entry<String, String> each : message.getProperties().entrySet()) {
            properties.append(properties.isEmpty() ? "" : ",")
                .append(quoted(each.getKey())).append(':').append(quoted(each.getValue()));
        }
        byte[] ordering = message.getOrderingKey();
        System.out.printf("{\"body\":%s,\"key\":%s,\"ordering\":%s,\"published\":%d,\"properties\":{%s}}%n",
            quoted(new String(message.getData(), StandardCharsets.UTF_8)), quoted(message.getKey()),
            quoted(ordering == null ? null : new String(ordering, StandardCharsets.UTF_8)),
            message.getPublishTime(), properties);
    }

    private static String quoted(String text) {
        return text == null ? "null" : '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    private static void nulls(PulsarClient client, String topic, int count) throws Exception {
        try (Producer<byte[]> producer = client.newProducer().topic(topic).create()) {
            for (int number = 0; number < count; number++) {
                producer.newMessage().key("k" + number).value(null).send();
            }
        }
    }
}
