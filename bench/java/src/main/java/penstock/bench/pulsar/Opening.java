package penstock.bench.pulsar;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import penstock.bench.Request;

/** A producer that is being opened, and opened anew when the broker says no. */
final class Opening {
    private final PulsarClient client;
    private final Request request;
    private CompletableFuture<Producer<byte[]>> opening;

    Opening(PulsarClient client, Request request) {
        this.client = client;
        this.request = request;
        this.opening = Clients.producer(client, request).createAsync();
    }

    Producer<byte[]> get() throws InterruptedException, ExecutionException {
        try {
            return opening.get();
        } catch (ExecutionException refused) {
            opening = Clients.producer(client, request).createAsync();
            throw refused;
        }
    }
}
