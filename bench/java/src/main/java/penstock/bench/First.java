package penstock.bench;

import java.util.concurrent.locks.LockSupport;

/** A client that is there before its broker, and tries until its first message is taken. */
public final class First {
    private static final long PAUSE_NS = 5_000_000;
    private static final long WAIT_NS = 120_000_000_000L;

    /** Sends one message, or fails. */
    public interface Attempt {
        void send() throws Exception;
    }

    private First() {
    }

    public static Figures of(Attempt attempt, Load.Go go) throws Exception {
        go.await();
        long began = System.nanoTime();
        for (int tries = 1; System.nanoTime() - began < WAIT_NS; tries++) {
            try {
                attempt.send();
                return new Figures().with("messages", 1).with("tries", tries)
                    .with("seconds", (System.nanoTime() - began) / 1e9).with("failures", 0);
            } catch (Exception notYet) {
                LockSupport.parkNanos(PAUSE_NS);
            }
        }
        throw new IllegalStateException("no message was taken within " + WAIT_NS / 1_000_000_000 + " s");
    }
}
