package penstock.compat.pulsar;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.CryptoKeyReader;
import org.apache.pulsar.client.api.EncryptionKeyInfo;
import org.apache.pulsar.client.api.PulsarClient;

/** What is open, by the numbers that the tests give; clients, and what they are asked directly. */
final class Open {
    private final Map<Integer, Object> things = new HashMap<>();

    void into(Map<String, Driver.Command> commands) {
        commands.put("open", this::open);
        commands.put("close", this::close);
        commands.put("partitions", request -> client(request).getPartitionsForTopic(request.text("topic"))
                .get(30, TimeUnit.SECONDS));
        commands.put("transaction", request -> client(request).newTransaction().build().get(30, TimeUnit.SECONDS));
    }

    private Object open(Request request) throws Exception {
        PulsarClient client = PulsarClient.builder()
                .serviceUrl(request.text("url"))
                .enableTransaction(request.flag("transactions"))
                .operationTimeout(request.whole("patience_s", 20), TimeUnit.SECONDS)
                .ioThreads(1)
                .listenerThreads(1)
                .build();
        keep(request, client);
        return true;
    }

    private Object close(Request request) throws Exception {
        Object thing = things.remove(request.whole("on", 0));
        if (thing instanceof PulsarClient client) {
            client.closeAsync(); // its threads take two seconds to end: nobody waits for them
        } else {
            ((AutoCloseable) thing).close();
        }
        return true;
    }

    void keep(Request request, Object thing) {
        put(request.whole("as", 0), thing);
    }

    void put(int number, Object thing) {
        things.put(number, thing);
    }

    PulsarClient client(Request request) {
        return (PulsarClient) things.get(request.whole("on", 0));
    }

    @SuppressWarnings("unchecked")
    <T> T get(Request request) {
        return (T) things.get(request.whole("on", 0));
    }

    /** One pair of keys, in files. */
    static CryptoKeyReader keys(Request request) {
        return new CryptoKeyReader() {
            @Override
            public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
                return read(request.text("public_key"));
            }

            @Override
            public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
                return read(request.text("private_key"));
            }
        };
    }

    private static EncryptionKeyInfo read(String file) {
        try {
            return new EncryptionKeyInfo(Files.readAllBytes(Path.of(file)), null);
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }
}
