package penstock.compat.pulsar;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/**
 * Drives Pulsar's client for Java. A line of JSON in is a command, {"do": "receive", "on": 3, "count": 5}; a line out
 * is its answer, {"ok": ...} or {"error": the exception, "why": its message}. The words are in drivers.py.
 */
public final class Driver {
    /** What a command does, and what it answers. */
    interface Command {
        Object run(Request request) throws Exception;
    }

    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    public static void main(String[] args) throws Exception {
        Map<String, Command> commands = new HashMap<>();
        Open open = new Open();
        Messages messages = new Messages();
        open.into(commands);
        new Produce(open).into(commands);
        new Consume(open, messages).into(commands);
        new Read(open, messages).into(commands);
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(GSON.toJson(answer(commands, new Request(GSON.fromJson(line, JsonObject.class)))));
        }
        System.exit(0);
    }

    private static Map<String, Object> answer(Map<String, Command> commands, Request request) {
        Map<String, Object> answer = new HashMap<>();
        try {
            Command command = commands.get(request.text("do"));
            if (command == null) {
                throw new UnsupportedOperationException(request.text("do"));
            }
            answer.put("ok", command.run(request));
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null
                    && (cause instanceof ExecutionException || cause instanceof CompletionException)) {
                cause = cause.getCause();
            }
            answer.put("error", cause.getClass().getSimpleName());
            answer.put("why", String.valueOf(cause.getMessage()));
        }
        return answer;
    }
}
