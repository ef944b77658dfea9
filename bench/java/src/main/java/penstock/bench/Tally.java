package penstock.bench;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/** What came of the operations of one run, from any thread: how long each took, how many failed, and why the first did. */
public final class Tally {
    private static final int OPERATIONS_MAX = 8_000_000; // later ones are counted and not timed

    private final int[] micros;
    private final AtomicInteger operations = new AtomicInteger();
    private final AtomicInteger failures = new AtomicInteger();
    private final AtomicReference<String> firstFailure = new AtomicReference<>("");

    public Tally() {
        micros = new int[OPERATIONS_MAX];
    }

    public void took(long nanos) {
        int at = operations.getAndIncrement();
        if (at < micros.length) {
            micros[at] = (int) Math.min(nanos / 1_000, Integer.MAX_VALUE);
        }
    }

    public void failed(Throwable failure) {
        failures.incrementAndGet();
        Throwable reason = failure.getCause() == null ? failure : failure.getCause(); // the client wraps what it caught
        firstFailure.compareAndSet("", reason.toString().lines().findFirst().orElse("unknown"));
    }

    public int operations() {
        return operations.get();
    }

    public int failures() {
        return failures.get();
    }

    public void clear() {
        operations.set(0);
        failures.set(0);
        firstFailure.set("");
    }

    /** The figures, where one operation stands for so many messages. Call it when all operations have ended. */
    public Figures figures(long tookNanos, int messagesEach) {
        int timed = Math.min(operations.get(), micros.length);
        Arrays.sort(micros, 0, timed);
        long messages = (long) operations.get() * messagesEach;
        return new Figures()
            .with("messages", messages)
            .with("seconds", tookNanos / 1e9)
            .with("per_s", messages / (tookNanos / 1e9))
            .with("p50_ms", at(timed, 0.50))
            .with("p99_ms", at(timed, 0.99))
            .with("max_ms", at(timed, 1.0))
            .with("failures", failures.get())
            .with("failure", firstFailure.get());
    }

    private double at(int timed, double share) {
        return timed == 0 ? 0 : micros[Math.min(timed - 1, (int) (timed * share))] / 1e3;
    }
}
