package penstock.compat;

import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * {@code push --namesrv A --topic T --group G [--tags EXPR | --sql EXPR] [--from first|last|timestamp] [--since
 * yyyyMMddHHmmss] [--orderly] [--broadcast] [--strategy NAME [--setting S]] [--instance NAME] [--ip ADDRESS]
 * [--fail-times N] [--retry-level L] [--max-reconsume N] [--trace]} (a strategy and its setting as in {@link Allocate}):
 * {@code {"ready":true}} once started, a line per message, until standard input ends. A message is refused by the
 * listener as long as it was consumed fewer times than --fail-times says.
 */
final class Push {
    private static final long LISTENER_MS_MAX = 5_000;
    private static final Map<String, ConsumeFromWhere> WHERE = Map.of(
        "first", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        "last", ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        "timestamp", ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);

    private Push() {
    }

    static void run(Options options) throws Exception {
        DefaultMQPushConsumer consumer = configured(options);
        consumer.start();
        Line.of().with("ready", true).with("clientId", consumer.buildMQClientId()).print();
        while (System.in.read() >= 0) {
            // until there is nothing more to read
        }
        consumer.shutdown();
        Line.of().with("done", true).print();
    }

    private static DefaultMQPushConsumer configured(Options options) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.text("group"), options.has("trace"), null);
        consumer.setNamesrvAddr(options.text("namesrv"));
        Timers.shorten(consumer);
        consumer.setAwaitTerminationMillisWhenShutdown(LISTENER_MS_MAX); // or the last offsets are not stored
        consumer.setConsumeFromWhere(WHERE.get(options.text("from", "first")));
        consumer.setMaxReconsumeTimes(options.number("max-reconsume", -1));
        if (options.has("since")) {
            consumer.setConsumeTimestamp(options.text("since"));
        }
        if (options.has("instance")) {
            consumer.setInstanceName(options.text("instance"));
        }
        if (options.has("ip")) {
            consumer.setClientIP(options.text("ip")); // what its ClientID begins with
        }
        if (options.has("strategy")) {
            consumer.setAllocateMessageQueueStrategy(
                Allocate.strategy(options.text("strategy"), options.text("setting", "")));
        }
        if (options.has("broadcast")) {
            consumer.setMessageModel(named("BROADCASTING", consumer.getMessageModel()));
        }
        subscribe(consumer, options);
        return consumer;
    }

    /** Another value of an enumeration. The message model's has not the same package in 4.9.8 and 5.5.0. */
    private static <E extends Enum<E>> E named(String name, E any) {
        return Enum.valueOf(any.getDeclaringClass(), name);
    }

    private static void subscribe(DefaultMQPushConsumer consumer, Options options) throws Exception {
        if (options.has("sql")) {
            consumer.subscribe(options.text("topic"), MessageSelector.bySql(options.text("sql")));
        } else {
            consumer.subscribe(options.text("topic"), options.text("tags", "*"));
        }
        Listener listener = new Listener(options);
        if (options.has("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) listener::orderly);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) listener::concurrently);
        }
    }

    /** Not a listener by type: the client looks at the type, and takes one that is both for an orderly one. */
    private static final class Listener {
        private static final long SUSPEND_MS = 100;
        private final int failTimes;
        private final int retryLevel;

        Listener(Options options) {
            failTimes = options.number("fail-times", 0);
            retryLevel = options.number("retry-level", 0);
        }

        ConsumeConcurrentlyStatus concurrently(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
            context.setDelayLevelWhenNextConsume(retryLevel);
            return accepted(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        }

        ConsumeOrderlyStatus orderly(List<MessageExt> messages, ConsumeOrderlyContext context) {
            context.setSuspendCurrentQueueTimeMillis(SUSPEND_MS);
            return accepted(messages) ? ConsumeOrderlyStatus.SUCCESS
                : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
        }

        private boolean accepted(List<MessageExt> messages) {
            messages.forEach(Messages::print);
            return messages.stream().allMatch(message -> message.getReconsumeTimes() >= failTimes);
        }
    }
}
