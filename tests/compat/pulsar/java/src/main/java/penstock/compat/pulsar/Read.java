package penstock.compat.pulsar;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.ReaderBuilder;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.TableView;

/** Readers, and tables made of what they read. */
final class Read {
    private final Open open;
    private final Messages messages;

    Read(Open open, Messages messages) {
        this.open = open;
        this.messages = messages;
    }

    void into(Map<String, Driver.Command> commands) {
        commands.put("reader", this::reader);
        commands.put("read", this::read);
        commands.put("available", request -> open.<Reader<byte[]>>get(request).hasMessageAvailable());
        commands.put("reader_seek", this::seek);
        commands.put("table", this::table);
        commands.put("entries", this::entries);
    }

    private Object reader(Request request) throws Exception {
        ReaderBuilder<byte[]> builder = open.client(request).newReader()
                .topic(request.text("topic"))
                .readCompacted(request.flag("compacted"));
        if (request.has("rollback_s")) {
            builder.startMessageFromRollbackDuration(request.number("rollback_s", 0), TimeUnit.SECONDS);
        } else {
            builder.startMessageId(messages.position(request));
        }
        if (request.flag("inclusive")) {
            builder.startMessageIdInclusive();
        }
        if (request.has("ranges")) {
            builder.keyHashRange(Consume.ranges(request).toArray(new Range[0]));
        }
        open.keep(request, builder.create());
        return true;
    }

    private Object read(Request request) throws Exception {
        Reader<byte[]> reader = open.get(request);
        List<Object> got = new ArrayList<>();
        while (got.size() < request.whole("count", 1)) {
            Message<byte[]> next = reader.readNext(request.whole("wait_ms", 0), TimeUnit.MILLISECONDS);
            if (next == null) {
                break;
            }
            got.add(messages.take(next));
        }
        return got;
    }

    private Object table(Request request) throws Exception {
        open.keep(request, open.client(request).newTableView(Schema.BYTES).topic(request.text("topic")).create());
        return true;
    }

    private Object entries(Request request) {
        Map<String, String> entries = new HashMap<>();
        open.<TableView<byte[]>>get(request).forEach(
                (key, value) -> entries.put(key, new String(value, StandardCharsets.UTF_8)));
        return entries;
    }

    private Object seek(Request request) throws Exception {
        Reader<byte[]> reader = open.get(request);
        if (request.has("time_ms")) {
            reader.seek(request.number("time_ms", 0));
        } else {
            reader.seek(messages.position(request));
        }
        return true;
    }
}
