package penstock.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * Puts load on a broker, one order per line of standard input: {@code send service=127.0.0.1:9876 topic=T mode=sync}.
 * Every order is answered with two lines: {@code {"began":true}} once everything is set up and warm, then, after any line on
 * standard input has said to go on, the figures of the measured part. Whoever asks takes the broker's CPU time in between.
 *
 * <p>One process serves both brokers, so that both meet the same compiled code. What the orders do with a client is in the
 * packages below this one.
 */
public final class Load {
    public interface Order {
        Figures run(Request request, Go go) throws Exception;
    }

    /** Says that the measured part can begin, and waits until it may. */
    public interface Go {
        void await() throws IOException;
    }

    private Load() {
    }

    public static void serve(Map<String, Order> known) throws IOException {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("{\"ready\":true}");
        for (String line = orders.readLine(); line != null && !line.isBlank(); line = orders.readLine()) {
            say(answered(known, new Request(line), () -> {
                System.gc(); // what earlier orders left must not be collected within this one
                say("{\"began\":true}");
                orders.readLine();
            }));
        }
        say("{\"done\":true}");
        System.exit(0); // clients leave threads behind that are no daemons
    }

    private static String answered(Map<String, Order> known, Request request, Go go) {
        try {
            return known.get(request.name()).run(request, go).json();
        } catch (Exception failure) {
            failure.printStackTrace();
            return new Figures().with("failed", failure.toString()).json();
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
