package penstock.bench;

import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** {@code first}: a client that is there before its broker, and tries until its first message is taken. */
final class First {
    private static final long PAUSE_NS = 5_000_000;
    private static final long WAIT_NS = 120_000_000_000L;

    private First() {
    }

    static Figures run(Request request, Load.Go go) throws Exception {
        DefaultMQProducer producer = Clients.producer(request);
        byte[] body = Clients.body(request);
        try {
            go.await();
            long began = System.nanoTime();
            for (int tries = 1; System.nanoTime() - began < WAIT_NS; tries++) {
                try {
                    producer.send(Clients.message(request, body));
                    return new Figures().with("messages", 1).with("tries", tries)
                        .with("seconds", (System.nanoTime() - began) / 1e9).with("failures", 0);
                } catch (Exception notYet) {
                    LockSupport.parkNanos(PAUSE_NS);
                }
            }
            throw new IllegalStateException("no message was taken within " + WAIT_NS / 1_000_000_000 + " s");
        } finally {
            producer.shutdown();
        }
    }
}
