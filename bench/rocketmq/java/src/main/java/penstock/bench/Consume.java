package penstock.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * {@code consume count=100000}: a backlog is sent, then a push consumer takes it. Counted from the first message it gets to
 * the last, so that what the client does before (routes, who else is in the group) is left out.
 */
final class Consume {
    private static final int BATCH = 32;
    private static final long WAIT_S = 60;

    private Consume() {
    }

    static Figures run(Request request, Load.Go go) throws Exception {
        int count = backlog(request);
        AtomicInteger left = new AtomicInteger(count);
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        CountDownLatch all = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = Clients.consumer(request, message -> {
            int now = left.getAndDecrement();
            if (now == count) {
                first.set(System.nanoTime());
            } else if (now == 1) {
                last.set(System.nanoTime());
                all.countDown();
            }
        });
        go.await();
        consumer.start();
        boolean complete = all.await(WAIT_S, TimeUnit.SECONDS);
        consumer.shutdown();
        if (!complete) {
            throw new IllegalStateException(left.get() + " of " + count + " messages did not come within " + WAIT_S + " s");
        }
        double seconds = (last.get() - first.get()) / 1e9;
        return new Figures().with("messages", count).with("seconds", seconds).with("per_s", count / seconds)
            .with("failures", Math.max(0, -left.get())).with("failure", left.get() < 0 ? "delivered twice" : "");
    }

    /** How many messages there are now. */
    private static int backlog(Request request) throws Exception {
        DefaultMQProducer producer = Clients.producerWithTopic(request);
        byte[] body = Clients.body(request);
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
