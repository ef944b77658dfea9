package penstock.compat;

import java.util.Arrays;

/**
 * A client that shuts down waits until its thread for events of connections has looked for one, which takes up to three
 * seconds when there is none. Here that thread is woken, as often as it takes.
 */
final class Hurry extends Thread {
    private static final long LOOK_MS = 50;
    private final Thread watched;

    private Hurry(Thread watched) {
        super("Hurry");
        this.watched = watched;
        setDaemon(true);
    }

    /** For the clients that this thread shuts down. */
    static void up() {
        new Hurry(Thread.currentThread()).start();
    }

    @Override
    public void run() {
        try {
            while (true) {
                Thread.sleep(LOOK_MS);
                if (Arrays.stream(watched.getStackTrace()).anyMatch(Hurry::isShutdown)) {
                    Thread.getAllStackTraces().keySet().stream()
                        .filter(thread -> thread.getName().equals("NettyEventExecutor")).forEach(Thread::interrupt);
                }
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }

    private static boolean isShutdown(StackTraceElement frame) {
        return frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown");
    }
}
