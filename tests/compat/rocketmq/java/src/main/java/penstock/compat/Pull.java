package penstock.compat;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * {@code pull --namesrv A --topic T --group G [--mode subscribe|assign|queues] [--tags EXPR | --sql EXPR]
 * [--from begin|stored]}: the lite pull consumer, its queues shared with the group or taken by itself, or the old pull
 * consumer that walks queue by queue.
 * {@code {"ready":true}}, a line per message, until standard input ends (queues: until the end of each queue).
 */
final class Pull {
    private static final Map<String, Driver.Command> MODES = Map.of(
        "subscribe", Pull::subscribed,
        "assign", Pull::assigned,
        "queues", Pull::queues);
    private static final long POLL_MS = 200;
    private static final int PULL_MESSAGES = 32;
    private static final int TRIES_MAX = 175; // until a heartbeat was answered

    private Pull() {
    }

    static void run(Options options) throws Exception {
        MODES.get(options.text("mode", "subscribe")).run(options);
        Line.of().with("done", true).print();
    }

    private static void subscribed(Options options) throws Exception {
        DefaultLitePullConsumer consumer = lite(options);
        consumer.subscribe(options.text("topic"), selector(options));
        consumer.start();
        poll(consumer);
    }

    private static MessageSelector selector(Options options) {
        return options.has("sql") ? MessageSelector.bySql(options.text("sql"))
            : MessageSelector.byTag(options.text("tags", "*"));
    }

    private static void assigned(Options options) throws Exception {
        DefaultLitePullConsumer consumer = lite(options);
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(options.text("topic"));
        consumer.assign(queues);
        if (options.text("from", "begin").equals("begin")) {
            for (MessageQueue queue : queues) {
                consumer.seekToBegin(queue);
            }
        }
        poll(consumer);
    }

    private static DefaultLitePullConsumer lite(Options options) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(options.text("group"));
        consumer.setNamesrvAddr(options.text("namesrv"));
        Timers.shorten(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        return consumer;
    }

    private static void poll(DefaultLitePullConsumer consumer) throws Exception {
        Line.of().with("ready", true).print();
        while (!inputEnded()) {
            List<MessageExt> messages = consumer.poll(POLL_MS);
            messages.forEach(Messages::print);
            if (!messages.isEmpty()) {
                consumer.commitSync();
            }
        }
        consumer.shutdown();
    }

    /** The one who reads our lines writes a line to end us: an end of input alone cannot be seen without waiting for it. */
    private static boolean inputEnded() throws Exception {
        return System.in.available() > 0;
    }

    private static void queues(Options options) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(options.text("group"));
        consumer.setNamesrvAddr(options.text("namesrv"));
        Timers.shorten(consumer);
        consumer.start();
        Line.of().with("ready", true).print();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(options.text("topic"))) {
            long end = consumer.maxOffset(queue);
            for (long offset = consumer.minOffset(queue); offset < end;) {
                PullResult result = pulled(consumer, queue, options, offset);
                if (result.getMsgFoundList() != null) {
                    result.getMsgFoundList().forEach(Messages::print);
                }
                offset = result.getNextBeginOffset();
            }
        }
        consumer.shutdown();
    }

    /** The client takes a broker that has not answered a heartbeat yet for one that is too old for SQL. */
    private static PullResult pulled(DefaultMQPullConsumer consumer, MessageQueue queue, Options options, long offset)
        throws Exception {
        for (int tries = 1;; tries++) {
            try {
                return consumer.pull(queue, selector(options), offset, PULL_MESSAGES);
            } catch (MQClientException failure) {
                if (tries == TRIES_MAX || !String.valueOf(failure.getErrorMessage()).contains("upgrade")) {
                    throw failure;
                }
                Thread.sleep(POLL_MS);
            }
        }
    }
}
