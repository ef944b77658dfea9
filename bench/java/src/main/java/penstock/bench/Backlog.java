package penstock.bench;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Messages that wait for a consumer. Counted from the first that it gets to the last, so that what the client does before
 * (routes, who else is in the group) is left out.
 */
public final class Backlog {
    private static final long WAIT_S = 60;

    private final int count;
    private final AtomicInteger left;
    private final AtomicLong first = new AtomicLong();
    private final AtomicLong last = new AtomicLong();
    private final CountDownLatch all = new CountDownLatch(1);

    public Backlog(int count) {
        this.count = count;
        this.left = new AtomicInteger(count);
    }

    /** The consumer was given one; from any thread. */
    public void seen() {
        int now = left.getAndDecrement();
        if (now == count) {
            first.set(System.nanoTime());
        } else if (now == 1) {
            last.set(System.nanoTime());
            all.countDown();
        }
    }

    /** Waits for the last. */
    public void await() throws InterruptedException {
        if (!all.await(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(left.get() + " of " + count + " messages did not come within " + WAIT_S + " s");
        }
    }

    public Figures figures() {
        double seconds = (last.get() - first.get()) / 1e9;
        return new Figures().with("messages", count).with("seconds", seconds).with("per_s", count / seconds)
            .with("failures", Math.max(0, -left.get())).with("failure", left.get() < 0 ? "delivered twice" : "");
    }
}
