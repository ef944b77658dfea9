package penstock.bench;

import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** Sends that do not wait for their answers, so many under way at a time. */
public final class Window {
    private static final long DRAIN_S = 30;
    private static final int FAILURES_MAX = 100_000;

    /** Sends one message; whoever gets its answer calls {@link #ended}. */
    public interface Once {
        void send(long began) throws Exception;
    }

    private final int size;
    private final Semaphore open;
    private final Tally tally;

    public Window(int size, Tally tally) {
        this.size = size;
        this.open = new Semaphore(size);
        this.tally = tally;
    }

    /** As fast as it goes, until then; returns when all have ended. */
    public void fill(long until, Once once) throws Exception {
        for (long now = System.nanoTime(); now < until && tally.failures() < FAILURES_MAX; now = System.nanoTime()) {
            one(once);
        }
        drain();
    }

    /** So many; returns when all have ended. */
    public void fill(int count, Once once) throws Exception {
        for (int number = 0; number < count; number++) {
            one(once);
        }
        drain();
    }

    private void one(Once once) throws Exception {
        open.acquire();
        once.send(System.nanoTime());
    }

    public void ended(long began, Throwable failure) {
        if (failure == null) {
            tally.took(System.nanoTime() - began);
        } else {
            tally.failed(failure);
        }
        open.release();
    }

    private void drain() throws InterruptedException {
        if (!open.tryAcquire(size, DRAIN_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("sends were neither answered nor failed within " + DRAIN_S + " s");
        }
        open.release(size);
    }
}
