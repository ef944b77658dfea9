package penstock.bench;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * Messages at a steady pace: {@code publish rate=500} times each send, {@code deliver rate=500} the way from the call of send
 * to the listener of a push consumer. A send that is late because the one before it took long is timed from when it was due.
 */
final class Paced {
    private static final long WAIT_NS = 60_000_000_000L;
    private static final long NOT_TIMED = 0;

    interface Once {
        void send(long from) throws Exception;
    }

    private Paced() {
    }

    static Figures publish(Request request, Load.Go go) throws Exception {
        DefaultMQProducer producer = Clients.producerWithTopic(request);
        byte[] body = Clients.body(request);
        Tally tally = new Tally();
        Once once = from -> {
            producer.send(Clients.message(request, body));
            tally.took(System.nanoTime() - from);
        };
        try {
            pace(request, "warm", tally, once);
            go.await();
            tally.clear();
            return tally.figures(pace(request, "seconds", tally, once), 1);
        } finally {
            producer.shutdown();
        }
    }

    static Figures deliver(Request request, Load.Go go) throws Exception {
        DefaultMQProducer producer = Clients.producerWithTopic(request);
        Tally tally = new Tally();
        AtomicInteger warm = new AtomicInteger();
        DefaultMQPushConsumer consumer = Clients.consumer(request, message -> {
            long from = ByteBuffer.wrap(message.getBody()).getLong();
            if (from == NOT_TIMED) {
                warm.incrementAndGet();
            } else {
                tally.took(System.nanoTime() - from);
            }
        });
        consumer.start();
        try {
            pace(request, "warm", tally, from -> producer.send(Clients.message(request, stamped(request, NOT_TIMED))));
            await(warm, (int) (request.nanos("warm") * request.number("rate") / 1_000_000_000L));
            go.await();
            long took = pace(request, "seconds", tally,
                from -> producer.send(Clients.message(request, stamped(request, from))));
            awaitAll(tally, (int) (request.nanos("seconds") * request.number("rate") / 1_000_000_000L));
            return tally.figures(took, 1);
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
    }

    private static byte[] stamped(Request request, long from) {
        byte[] body = new byte[request.number("bytes")];
        ByteBuffer.wrap(body).putLong(from);
        return body;
    }

    private static void await(AtomicInteger warm, int count) {
        for (long until = System.nanoTime() + WAIT_NS; warm.get() < count; LockSupport.parkNanos(1_000_000)) {
            if (System.nanoTime() > until) {
                throw new IllegalStateException(warm.get() + " of " + count + " messages came to the consumer");
            }
        }
    }

    private static void awaitAll(Tally tally, int count) {
        long until = System.nanoTime() + WAIT_NS;
        while (tally.operations() + tally.failures() < count) {
            if (System.nanoTime() > until) {
                throw new IllegalStateException(tally.operations() + " of " + count + " messages came to the consumer");
            }
            LockSupport.parkNanos(1_000_000);
        }
    }

    /** So many messages as the time takes at that pace; the time it took. */
    private static long pace(Request request, String key, Tally tally, Once once) {
        long gap = 1_000_000_000L / request.number("rate");
        long began = System.nanoTime();
        long count = request.nanos(key) / gap;
        for (int number = 0; number < count; number++) {
            try {
                once.send(due(began + number * gap));
            } catch (Exception failure) {
                tally.failed(failure);
            }
        }
        return System.nanoTime() - began;
    }

    /** Waits until it is time, and says from when the send counts. */
    private static long due(long at) {
        if (System.nanoTime() >= at) {
            return at;
        }
        for (long now = System.nanoTime(); now < at; now = System.nanoTime()) {
            LockSupport.parkNanos(at - now);
        }
        return System.nanoTime();
    }
}
