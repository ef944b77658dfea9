package penstock.compat.pulsar;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.ConsumerEventListener;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/** Consumers, and what is done with what they receive. */
final class Consume {
    private final Open open;
    private final Messages messages;
    private final Map<Integer, List<Object>> heard = new ConcurrentHashMap<>();

    Consume(Open open, Messages messages) {
        this.open = open;
        this.messages = messages;
    }

    void into(Map<String, Driver.Command> commands) {
        commands.put("subscribe", this::subscribe);
        commands.put("receive", this::receive);
        commands.put("ack", this::ack);
        commands.put("ack_until", this::ackUntil);
        commands.put("nack", this::nack);
        commands.put("later", this::later);
        commands.put("redeliver", this::redeliver);
        commands.put("seek", this::seek);
        commands.put("last", this::last);
        commands.put("unsubscribe", this::unsubscribe);
        commands.put("active", request -> heard.get(request.whole("on", 0)));
        commands.put("stats", this::stats);
        commands.put("ended", request -> open.<Consumer<byte[]>>get(request).hasReachedEndOfTopic());
    }

    private Object subscribe(Request request) throws Exception {
        ConsumerBuilder<byte[]> builder = open.client(request).newConsumer()
                .subscriptionName(request.text("subscription"))
                .subscriptionType(SubscriptionType.valueOf(request.text("type", "Exclusive")))
                .subscriptionInitialPosition(SubscriptionInitialPosition.valueOf(request.text("from", "Latest")))
                .enableBatchIndexAcknowledgment(request.flag("batch_ack"))
                .isAckReceiptEnabled(request.flag("ack_receipt"))
                .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                .negativeAckRedeliveryDelay(request.number("nack_ms", 100), TimeUnit.MILLISECONDS)
                .priorityLevel(request.whole("priority", 0))
                .patternAutoDiscoveryPeriod(request.whole("discover_s", 60), TimeUnit.SECONDS)
                .autoUpdatePartitionsInterval(request.whole("discover_s", 60), TimeUnit.SECONDS)
                .receiverQueueSize(request.whole("queue", 1000))
                .enableRetry(request.flag("retry"))
                .readCompacted(request.flag("compacted"))
                .properties(request.pairs("properties"));
        if (request.text("type", "").equals("Failover")) {
            builder.consumerEventListener(listener(request.whole("as", 0)));
        }
        if (request.has("pattern")) {
            builder.topicsPattern(request.text("pattern"));
        } else {
            builder.topics(request.texts("topics"));
        }
        optional(request, builder);
        open.keep(request, builder.subscribe());
        return true;
    }

    private static void optional(Request request, ConsumerBuilder<byte[]> builder) {
        if (request.flag("compacted")) {
            builder.readCompacted(true);
        }
        if (request.has("name")) {
            builder.consumerName(request.text("name"));
        }
        if (request.has("private_key")) {
            builder.cryptoKeyReader(Open.keys(request));
        }
        if (request.has("ack_timeout_ms")) {
            builder.ackTimeout(request.number("ack_timeout_ms", 0), TimeUnit.MILLISECONDS);
        }
        if (request.has("dead")) {
            builder.deadLetterPolicy(dead(request.inner("dead")));
        }
        if (request.has("ranges")) {
            builder.keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(ranges(request)));
        } else if (request.flag("any_order")) {
            builder.keySharedPolicy(KeySharedPolicy.autoSplitHashRange().setAllowOutOfOrderDelivery(true));
        }
    }

    static List<Range> ranges(Request request) {
        List<Range> ranges = new ArrayList<>();
        request.all("ranges").forEach(each -> ranges.add(Range.of(each.whole("first", 0), each.whole("last", 0))));
        return ranges;
    }

    private static DeadLetterPolicy dead(Request request) {
        return DeadLetterPolicy.builder()
                .maxRedeliverCount(request.whole("times", 0))
                .deadLetterTopic(request.text("topic"))
                .retryLetterTopic(request.text("retry_topic"))
                .initialSubscriptionName(request.text("subscription"))
                .build();
    }

    private ConsumerEventListener listener(int number) {
        List<Object> told = heard.computeIfAbsent(number, key -> new java.util.concurrent.CopyOnWriteArrayList<>());
        return new ConsumerEventListener() {
            @Override
            public void becameActive(Consumer<?> consumer, int partition) {
                told.add(List.of(partition, true));
            }

            @Override
            public void becameInactive(Consumer<?> consumer, int partition) {
                told.add(List.of(partition, false));
            }
        };
    }

    /** So many, or those that came before nothing came for a while. */
    private Object receive(Request request) throws Exception {
        Consumer<byte[]> consumer = open.get(request);
        List<Object> got = new ArrayList<>();
        while (got.size() < request.whole("count", 1)) {
            CompletableFuture<Message<byte[]>> next = consumer.receiveAsync();
            try {
                got.add(messages.take(next.get(request.number("wait_ms", 0), TimeUnit.MILLISECONDS)));
            } catch (TimeoutException nothing) {
                if (next.cancel(false)) {
                    break;
                }
                got.add(messages.take(next.get()));
            }
        }
        return got;
    }

    private Object ack(Request request) throws Exception {
        Consumer<byte[]> consumer = open.get(request);
        List<CompletableFuture<Void>> told = new ArrayList<>();
        for (int number : request.wholes("numbers")) {
            told.add(consumer.acknowledgeAsync(messages.get(number)));
        }
        for (CompletableFuture<Void> each : told) {
            each.get(20, TimeUnit.SECONDS);
        }
        return true;
    }

    private Object ackUntil(Request request) throws Exception {
        open.<Consumer<byte[]>>get(request).acknowledgeCumulative(messages.get(request.whole("number", 0)));
        return true;
    }

    private Object nack(Request request) {
        Consumer<byte[]> consumer = open.get(request);
        request.wholes("numbers").forEach(number -> consumer.negativeAcknowledge(messages.get(number)));
        return true;
    }

    private Object later(Request request) throws Exception {
        open.<Consumer<byte[]>>get(request).reconsumeLater(
                messages.get(request.whole("number", 0)), request.number("delay_ms", 0), TimeUnit.MILLISECONDS);
        return true;
    }

    private Object redeliver(Request request) {
        open.<Consumer<byte[]>>get(request).redeliverUnacknowledgedMessages();
        return true;
    }

    private Object seek(Request request) throws Exception {
        Consumer<byte[]> consumer = open.get(request);
        if (request.has("time_ms")) {
            consumer.seek(request.number("time_ms", 0));
        } else {
            consumer.seek(messages.position(request));
        }
        return true;
    }

    private Object last(Request request) throws Exception {
        List<Object> ids = new ArrayList<>();
        open.<Consumer<byte[]>>get(request).getLastMessageIds().forEach(id -> ids.add(Messages.id(id)));
        return ids;
    }

    private Object unsubscribe(Request request) throws Exception {
        open.<Consumer<byte[]>>get(request).unsubscribe();
        return true;
    }

    private Object stats(Request request) {
        var stats = open.<Consumer<byte[]>>get(request).getStats();
        return Map.of("received", stats.getTotalMsgsReceived(), "acked", stats.getTotalAcksSent());
    }
}
