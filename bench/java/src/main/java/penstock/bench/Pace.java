package penstock.bench;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Messages at a steady pace: {@link #publish} times each send, {@link #deliver} the way from the call of send to a consumer,
 * by the time that stands in the message. A send that is late because the one before it took long is timed from when it was
 * due.
 */
public final class Pace {
    private static final long WAIT_NS = 60_000_000_000L;
    private static final long NOT_TIMED = 0;

    /** Sends one message and waits for the answer. */
    public interface Once {
        void send(byte[] body) throws Exception;
    }

    private interface Due {
        void send(long from) throws Exception;
    }

    private final Request request;
    private final Tally tally = new Tally();
    private final AtomicInteger warm = new AtomicInteger();

    public Pace(Request request) {
        this.request = request;
    }

    public Figures publish(Once once, Load.Go go) throws Exception {
        byte[] body = request.body();
        Due send = from -> {
            once.send(body);
            tally.took(System.nanoTime() - from);
        };
        pace("warm", send);
        go.await();
        tally.clear();
        return tally.figures(pace("seconds", send), 1);
    }

    /** Whoever is sent to calls {@link #seen}. */
    public Figures deliver(Once once, Load.Go go) throws Exception {
        pace("warm", from -> once.send(stamped(NOT_TIMED)));
        awaitWarm();
        go.await();
        long took = pace("seconds", from -> once.send(stamped(from)));
        awaitAll();
        return tally.figures(took, 1);
    }

    public void seen(byte[] body) {
        long from = ByteBuffer.wrap(body).getLong();
        if (from == NOT_TIMED) {
            warm.incrementAndGet();
        } else {
            tally.took(System.nanoTime() - from);
        }
    }

    private byte[] stamped(long from) {
        byte[] body = new byte[request.number("bytes")];
        ByteBuffer.wrap(body).putLong(from);
        return body;
    }

    private int expected(String key) {
        return (int) (request.nanos(key) * request.number("rate") / 1_000_000_000L);
    }

    private void awaitWarm() {
        int count = expected("warm");
        for (long until = System.nanoTime() + WAIT_NS; warm.get() < count; LockSupport.parkNanos(1_000_000)) {
            if (System.nanoTime() > until) {
                throw new IllegalStateException(warm.get() + " of " + count + " messages came to the consumer");
            }
        }
    }

    private void awaitAll() {
        int count = expected("seconds");
        long until = System.nanoTime() + WAIT_NS;
        while (tally.operations() + tally.failures() < count) {
            if (System.nanoTime() > until) {
                throw new IllegalStateException(tally.operations() + " of " + count + " messages came to the consumer");
            }
            LockSupport.parkNanos(1_000_000);
        }
    }

    /** So many messages as the time takes at that pace; the time it took. */
    private long pace(String key, Due once) {
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
