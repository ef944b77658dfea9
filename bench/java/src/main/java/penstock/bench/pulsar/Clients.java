package penstock.bench.pulsar;

import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import penstock.bench.Request;
import penstock.bench.Tally;
import penstock.bench.Window;

/** Producers and consumers as an application makes them: nothing is tuned. */
final class Clients {
    interface Seen {
        void message(byte[] body);
    }

    private static final int OPERATION_TIMEOUT_S = 120;
    private static final long RETRY_MS = 10;

    private Clients() {
    }

    static PulsarClient client(Request request) throws PulsarClientException {
        return builder(request).build();
    }

    /** One that does not wait longer and longer between two tries to connect, so that a broker's start can be timed. */
    static PulsarClient impatient(Request request) throws PulsarClientException {
        return builder(request).operationTimeout(OPERATION_TIMEOUT_S, TimeUnit.SECONDS)
            .startingBackoffInterval(RETRY_MS, TimeUnit.MILLISECONDS).maxBackoffInterval(RETRY_MS, TimeUnit.MILLISECONDS)
            .build();
    }

    private static ClientBuilder builder(Request request) {
        return PulsarClient.builder().serviceUrl("pulsar://" + request.text("service"));
    }

    static ProducerBuilder<byte[]> producer(PulsarClient client, Request request) {
        return client.newProducer().topic(request.text("topic")).enableBatching(request.text("batched").equals("true"))
            .blockIfQueueFull(true);
    }

    static Window.Once sending(Producer<byte[]> producer, byte[] body, Window window) {
        return began -> producer.sendAsync(body).whenComplete((id, failure) -> window.ended(began, failure));
    }

    static void sendBacklog(PulsarClient client, Request request) throws Exception {
        Tally tally = new Tally();
        Window window = new Window(request.number("window"), tally);
        try (Producer<byte[]> producer = producer(client, request).create()) {
            window.fill(request.number("count"), sending(producer, request.body(), window));
        }
        if (tally.failures() > 0) {
            throw new IllegalStateException(tally.failures() + " messages of the backlog were not taken");
        }
    }

    /** One that gets everything from the beginning and acknowledges it message by message. */
    static Consumer<byte[]> consumer(PulsarClient client, Request request, SubscriptionType type, Seen seen)
        throws PulsarClientException {
        return client.newConsumer().topic(request.text("topic")).subscriptionName("bench").subscriptionType(type)
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
            .messageListener((consumer, message) -> {
                seen.message(message.getData());
                consumer.acknowledgeAsync(message);
            }).subscribe();
    }
}
