package penstock.compat;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * {@code request --namesrv A --topic T --count N [--timeout-ms N]} and what {@link Messages} takes: a line per request, with
 * the body of its reply or the error. {@code reply --namesrv A --topic T --group G}: answers every request with "re: " and
 * its body; a line per request, until standard input ends.
 */
final class Request {
    private static final int TIMEOUT_MS = 20_000;

    private Request() {
    }

    static void ask(Options options) throws Exception {
        DefaultMQProducer producer = producer(options, "compat-requester");
        List<Message> messages = Messages.numbered(options);
        for (int number = 0; number < messages.size(); number++) {
            ask(producer, messages.get(number), number, options.number("timeout-ms", TIMEOUT_MS));
        }
        producer.shutdown();
        Line.of().with("done", true).print();
    }

    private static void ask(DefaultMQProducer producer, Message message, int number, int timeoutMs) {
        try {
            Message reply = producer.request(message, timeoutMs);
            Line.of().with("number", number)
                .with("reply", new String(reply.getBody(), StandardCharsets.UTF_8))
                .with("properties", reply.getProperties())
                .print();
        } catch (Exception failure) {
            Line.of().with("number", number).with("error", failure.toString()).print();
        }
    }

    static void reply(Options options) throws Exception {
        DefaultMQProducer producer = producer(options, "compat-replier");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.text("group"));
        consumer.setNamesrvAddr(options.text("namesrv"));
        Timers.shorten(consumer);
        consumer.subscribe(options.text("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> answer(producer, message));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Line.of().with("ready", true).print();
        while (System.in.read() >= 0) {
            // until there is nothing more to read
        }
        consumer.shutdown();
        producer.shutdown();
        Line.of().with("done", true).print();
    }

    private static void answer(DefaultMQProducer producer, MessageExt message) {
        Line line = Line.of().with("body", new String(message.getBody(), StandardCharsets.UTF_8));
        try {
            byte[] body = ("re: " + new String(message.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
            line.with("status", producer.send(MessageUtil.createReplyMessage(message, body)).getSendStatus());
        } catch (MQBrokerException refusal) {
            line.with("status", "REFUSED").with("code", refusal.getResponseCode()).with("error", refusal.toString());
        } catch (Exception failure) {
            line.with("status", "FAILED").with("error", failure.toString());
        }
        line.print();
    }

    private static DefaultMQProducer producer(Options options, String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        return producer;
    }
}
