package penstock.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * {@code produce --namesrv A --topic T --count N [--mode sync|async|oneway|batch|ordered] [--batch N] [--trace]} and what
 * {@link Messages} takes. A line per message that was answered, then {@code {"done":true}}.
 */
final class Produce {
    interface Mode {
        void send(DefaultMQProducer producer, List<Message> messages, Options options) throws Exception;
    }

    private static final Map<String, Mode> MODES = Map.of(
        "sync", Produce::sync,
        "async", Produce::async,
        "oneway", Produce::oneway,
        "batch", Produce::batch,
        "ordered", Produce::ordered);
    private static final int SEND_TIMEOUT_MS = 10_000;
    private static final int BODY_BYTES_MAX = 8 << 20; // above the broker's limit, which is what a test asks for
    private static final int LANES = 3;

    private Produce() {
    }

    static void run(Options options) throws Exception {
        DefaultMQProducer producer = started(options);
        try {
            MODES.get(options.text("mode", "sync")).send(producer, Messages.numbered(options), options);
        } finally {
            producer.shutdown();
        }
        Line.of().with("done", true).print();
    }

    private static DefaultMQProducer started(Options options) throws Exception {
        if (options.has("compress-type")) {
            System.setProperty("rocketmq.message.compressType", options.text("compress-type")); // read once, by the first
        }
        DefaultMQProducer producer = new DefaultMQProducer(options.text("group", "compat-producer"),
            options.has("trace"), null);
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
        producer.setRetryTimesWhenSendFailed(0); // one message sent is one message stored
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.setMaxMessageSize(BODY_BYTES_MAX);
        if (options.has("compress-over-bytes")) {
            producer.setCompressMsgBodyOverHowmuch(options.number("compress-over-bytes", 0));
        }
        producer.start();
        return producer;
    }

    private static void sync(DefaultMQProducer producer, List<Message> messages, Options options) throws Exception {
        for (int number = 0; number < messages.size(); number++) {
            try {
                answered(number, producer.send(messages.get(number)));
            } catch (MQBrokerException refusal) {
                refused(number, refusal);
            }
        }
    }

    private static void async(DefaultMQProducer producer, List<Message> messages, Options options) throws Exception {
        CountDownLatch open = new CountDownLatch(messages.size());
        for (int number = 0; number < messages.size(); number++) {
            producer.send(messages.get(number), new Answer(number, open));
        }
        open.await();
    }

    private record Answer(int number, CountDownLatch open) implements SendCallback {
        @Override
        public void onSuccess(SendResult result) {
            answered(number, result);
            open.countDown();
        }

        @Override
        public void onException(Throwable failure) {
            refused(number, failure);
            open.countDown();
        }
    }

    private static void oneway(DefaultMQProducer producer, List<Message> messages, Options options) throws Exception {
        for (int number = 0; number < messages.size(); number++) {
            producer.sendOneway(messages.get(number));
            Line.of().with("number", number).with("status", "ONEWAY").print();
        }
    }

    private static void batch(DefaultMQProducer producer, List<Message> messages, Options options) throws Exception {
        int batchMessages = options.number("batch", 10);
        for (int from = 0; from < messages.size(); from += batchMessages) {
            List<Message> some = messages.subList(from, Math.min(from + batchMessages, messages.size()));
            batchAnswered(from, producer.send(new ArrayList<>(some)));
        }
    }

    /** The messages of one lane (every third number) follow one another in one queue. */
    private static void ordered(DefaultMQProducer producer, List<Message> messages, Options options) throws Exception {
        for (int number = 0; number < messages.size(); number++) {
            int lane = number % LANES;
            answered(number, producer.send(messages.get(number), (queues, message, chosen) ->
                queues.get((int) chosen % queues.size()), lane));
        }
    }

    private static void answered(int number, SendResult result) {
        Line.of().with("number", number)
            .with("msgId", result.getMsgId())
            .with("offsetMsgId", result.getOffsetMsgId())
            .with("queueId", result.getMessageQueue().getQueueId())
            .with("queueOffset", result.getQueueOffset())
            .with("status", result.getSendStatus())
            .print();
    }

    /** A batch has one answer: ids joined by commas, and the offset of the first. */
    private static void batchAnswered(int from, SendResult result) {
        String[] msgIds = result.getMsgId().split(",");
        String[] offsetMsgIds = result.getOffsetMsgId().split(",");
        for (int index = 0; index < offsetMsgIds.length; index++) {
            Line.of().with("number", from + index)
                .with("msgId", msgIds.length == offsetMsgIds.length ? msgIds[index] : result.getMsgId())
                .with("offsetMsgId", offsetMsgIds[index])
                .with("queueId", result.getMessageQueue().getQueueId())
                .with("queueOffset", result.getQueueOffset() + index)
                .with("status", result.getSendStatus())
                .print();
        }
    }

    private static void refused(int number, Throwable failure) {
        Integer code = failure instanceof MQBrokerException ? ((MQBrokerException) failure).getResponseCode() : null;
        Line.of().with("number", number).with("status", "REFUSED").with("code", code)
            .with("error", failure.toString()).print();
    }
}
