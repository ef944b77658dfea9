package penstock.bench.rocketmq;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import penstock.bench.Backlog;
import penstock.bench.Figures;
import penstock.bench.Load;
import penstock.bench.Request;

/** {@code consume count=100000}: a backlog is sent, then a push consumer takes it. */
final class Consume {
    private static final int BATCH = 32;

    private Consume() {
    }

    static Figures run(Request request, Load.Go go) throws Exception {
        Backlog backlog = new Backlog(sent(request));
        DefaultMQPushConsumer consumer = Clients.consumer(request, message -> backlog.seen());
        go.await();
        consumer.start();
        try {
            backlog.await();
        } finally {
            consumer.shutdown();
        }
        return backlog.figures();
    }

    /** How many messages there are now. */
    private static int sent(Request request) throws Exception {
        DefaultMQProducer producer = Clients.producerWithTopic(request);
        byte[] body = request.body();
        int sent = 0;
        while (sent < request.number("count")) {
            List<Message> batch = new ArrayList<>(BATCH);
            while (batch.size() < BATCH) {
                batch.add(Clients.message(request, body));
            }
            producer.send(batch);
            sent += BATCH;
        }
        producer.shutdown();
        return sent;
    }
}
