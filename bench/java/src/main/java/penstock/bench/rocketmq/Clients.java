package penstock.bench.rocketmq;

import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import penstock.bench.Request;

/** Producers and consumers as an application makes them: nothing is tuned, except that a failed send is not tried again. */
final class Clients {
    interface Seen {
        void message(MessageExt message);
    }

    private static final int SEND_TIMEOUT_MS = 10_000;
    private static final long ROUTE_WAIT_NS = 60_000_000_000L;
    private static final long ROUTE_PAUSE_NS = 20_000_000;
    private static final String MODEL_TOPIC = "TBW102"; // new topics are created where this one is

    private Clients() {
    }

    static DefaultMQProducer producer(Request request) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench-producer");
        producer.setNamesrvAddr(request.text("service"));
        producer.setSendMsgTimeout(SEND_TIMEOUT_MS);
        producer.setRetryTimesWhenSendFailed(0); // a message that counts was sent once
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.start();
        return producer;
    }

    static DefaultMQProducer producerWithTopic(Request request) throws Exception {
        DefaultMQProducer producer = producer(request);
        producer.createTopic(MODEL_TOPIC, request.text("topic"), request.number("queues"), Map.of());
        long until = System.nanoTime() + ROUTE_WAIT_NS;
        while (!isKnown(producer, request.text("topic")) && System.nanoTime() < until) {
            LockSupport.parkNanos(ROUTE_PAUSE_NS);
        }
        return producer;
    }

    /** Whether the name server has the topic. A consumer that starts before that looks again after half a minute. */
    private static boolean isKnown(DefaultMQProducer producer, String topic) {
        try {
            return !producer.fetchPublishMessageQueues(topic).isEmpty();
        } catch (MQClientException notYet) {
            return false;
        }
    }

    static DefaultMQPushConsumer consumer(Request request, Seen seen) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("group-" + request.text("topic"));
        consumer.setNamesrvAddr(request.text("service"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(request.text("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(seen::message);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return consumer;
    }

    static Message message(Request request, byte[] body) {
        return new Message(request.text("topic"), body);
    }
}
