package penstock.bench.rocketmq;

import java.io.IOException;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import penstock.bench.Figures;
import penstock.bench.First;
import penstock.bench.Load;
import penstock.bench.Pace;
import penstock.bench.Request;

/** The load with RocketMQ's client. {@code service} is a name server. */
public final class Main {
    private static final Map<String, Load.Order> ORDERS = Map.of(
        "send", Send::run,
        "consume", Consume::run,
        "publish", Main::publish,
        "deliver", Main::deliver,
        "first", Main::first);

    private Main() {
    }

    public static void main(String[] args) throws IOException {
        Load.serve(ORDERS);
    }

    private static Figures publish(Request request, Load.Go go) throws Exception {
        DefaultMQProducer producer = Clients.producerWithTopic(request);
        try {
            return new Pace(request).publish(body -> producer.send(Clients.message(request, body)), go);
        } finally {
            producer.shutdown();
        }
    }

    private static Figures deliver(Request request, Load.Go go) throws Exception {
        DefaultMQProducer producer = Clients.producerWithTopic(request);
        Pace pace = new Pace(request);
        DefaultMQPushConsumer consumer = Clients.consumer(request, message -> pace.seen(message.getBody()));
        consumer.start();
        try {
            return pace.deliver(body -> producer.send(Clients.message(request, body)), go);
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
    }

    private static Figures first(Request request, Load.Go go) throws Exception {
        DefaultMQProducer producer = Clients.producer(request);
        byte[] body = request.body();
        try {
            return First.of(() -> producer.send(Clients.message(request, body)), go);
        } finally {
            producer.shutdown();
        }
    }
}
