package penstock.compat;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * {@code admin}: mqadmin, command after command in one process, since a Java process per command is dear. Each line of
 * standard input is one command, its words apart by tabs; each is answered by a line with what it printed.
 */
final class Admin {
    private Admin() {
    }

    static void run(Options options) throws Exception {
        Line.of().with("ready", true).print();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Line.of().with("printed", printed(line.split("\t"))).print();
        }
        Line.of().with("done", true).print();
    }

    private static String printed(String[] words) {
        ByteArrayOutputStream caught = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        try (PrintStream both = new PrintStream(caught, true, StandardCharsets.UTF_8)) {
            System.setOut(both);
            System.setErr(both);
            MQAdminStartup.main0(words, null);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return caught.toString(StandardCharsets.UTF_8);
    }
}
