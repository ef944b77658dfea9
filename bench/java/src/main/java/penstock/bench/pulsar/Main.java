package penstock.bench.pulsar;

import java.io.IOException;
import java.util.Map;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;
import penstock.bench.Backlog;
import penstock.bench.Figures;
import penstock.bench.First;
import penstock.bench.Load;
import penstock.bench.Pace;
import penstock.bench.Request;
import penstock.bench.Tally;
import penstock.bench.Window;

/**
 * The load with Pulsar's client. {@code service} is a broker. {@code batched} says whether producers make batches,
 * {@code window} how many sends are under way, {@code type} what a subscription is: Exclusive or Shared.
 */
public final class Main {
    private static final Map<String, Load.Order> ORDERS = Map.of(
        "send", Main::send,
        "consume", Main::consume,
        "publish", Main::publish,
        "deliver", Main::deliver,
        "first", Main::first);

    private static final long TRIED_MS = 500; // by then a client that nobody answers has loaded its code

    private Main() {
    }

    public static void main(String[] args) throws IOException {
        Load.serve(ORDERS);
    }

    private static Figures send(Request request, Load.Go go) throws Exception {
        try (PulsarClient client = Clients.client(request);
            Producer<byte[]> producer = Clients.producer(client, request).create()) {
            Tally tally = new Tally();
            Window window = new Window(request.number("window"), tally);
            Window.Once once = Clients.sending(producer, request.body(), window);
            window.fill(System.nanoTime() + request.nanos("warm"), once);
            go.await();
            tally.clear();
            long began = System.nanoTime();
            window.fill(began + request.nanos("seconds"), once);
            return tally.figures(System.nanoTime() - began, 1);
        }
    }

    /** A backlog is sent, then a consumer takes it and acknowledges every message. */
    private static Figures consume(Request request, Load.Go go) throws Exception {
        try (PulsarClient client = Clients.client(request)) {
            Clients.sendBacklog(client, request);
            Backlog backlog = new Backlog(request.number("count"));
            SubscriptionType type = SubscriptionType.valueOf(request.text("type"));
            go.await();
            try (Consumer<byte[]> consumer = Clients.consumer(client, request, type, message -> backlog.seen())) {
                backlog.await();
            }
            return backlog.figures();
        }
    }

    private static Figures publish(Request request, Load.Go go) throws Exception {
        try (PulsarClient client = Clients.client(request);
            Producer<byte[]> producer = Clients.producer(client, request).create()) {
            return new Pace(request).publish(producer::send, go);
        }
    }

    private static Figures deliver(Request request, Load.Go go) throws Exception {
        Pace pace = new Pace(request);
        try (PulsarClient client = Clients.client(request);
            Producer<byte[]> producer = Clients.producer(client, request).create();
            Consumer<byte[]> consumer = Clients.consumer(client, request, SubscriptionType.Exclusive, pace::seen)) {
            return pace.deliver(producer::send, go);
        }
    }

    private static Figures first(Request request, Load.Go go) throws Exception {
        byte[] body = request.body();
        try (PulsarClient client = Clients.impatient(request)) {
            Opening opening = new Opening(client, request); // it tries, over and over
            Thread.sleep(TRIED_MS);
            return First.of(() -> {
                try (Producer<byte[]> producer = opening.get()) {
                    producer.send(body);
                }
            }, go);
        }
    }
}
