package penstock.bench.rocketmq;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import penstock.bench.Figures;
import penstock.bench.Load;
import penstock.bench.Request;
import penstock.bench.Tally;
import penstock.bench.Window;

/**
 * {@code send mode=sync threads=16}, {@code mode=async window=1000} or {@code mode=batch threads=4 batch=32}, each with
 * {@code warm=1 seconds=5 bytes=1024 queues=4}: as fast as it goes, through one producer, for so many seconds.
 */
final class Send {
    private static final int FAILURES_MAX = 100_000;
    private static final Map<String, Mode> MODES = Map.of("sync", Send::sync, "async", Send::async, "batch", Send::batch);

    interface Mode {
        void send(Send run, long until) throws Exception;
    }

    interface Once {
        SendResult send() throws Exception;
    }

    private final Request request;
    private final DefaultMQProducer producer;
    private final byte[] body;
    private final Tally tally = new Tally();

    private Send(Request request, DefaultMQProducer producer) {
        this.request = request;
        this.producer = producer;
        this.body = request.body();
    }

    static Figures run(Request request, Load.Go go) throws Exception {
        DefaultMQProducer producer = Clients.producerWithTopic(request);
        try {
            return new Send(request, producer).measured(go);
        } finally {
            producer.shutdown();
        }
    }

    private Figures measured(Load.Go go) throws Exception {
        String mode = request.text("mode");
        MODES.get(mode).send(this, System.nanoTime() + request.nanos("warm"));
        go.await();
        tally.clear();
        long began = System.nanoTime();
        MODES.get(mode).send(this, began + request.nanos("seconds"));
        return tally.figures(System.nanoTime() - began, mode.equals("batch") ? request.number("batch") : 1);
    }

    private void sync(long until) throws Exception {
        inThreads(until, () -> producer.send(Clients.message(request, body)));
    }

    private void batch(long until) throws Exception {
        inThreads(until, () -> producer.send(batch()));
    }

    private List<Message> batch() {
        int count = request.number("batch");
        List<Message> messages = new ArrayList<>(count);
        while (messages.size() < count) {
            messages.add(Clients.message(request, body));
        }
        return messages;
    }

    private void inThreads(long until, Once once) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < request.number("threads"); number++) {
            threads.add(new Thread(() -> repeat(until, once)));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void repeat(long until, Once once) {
        for (long began = System.nanoTime(); began < until && tally.failures() < FAILURES_MAX; began = System.nanoTime()) {
            try {
                Exception failure = failure(once.send());
                if (failure != null) {
                    throw failure;
                }
                tally.took(System.nanoTime() - began);
            } catch (Exception failure) {
                tally.failed(failure);
            }
        }
    }

    /** Null when there is none. */
    private static Exception failure(SendResult result) {
        SendStatus status = result.getSendStatus();
        return status == SendStatus.SEND_OK ? null : new IllegalStateException(status.name());
    }

    private void async(long until) throws Exception {
        Window window = new Window(request.number("window"), tally);
        window.fill(until, began -> producer.send(Clients.message(request, body), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                window.ended(began, failure(result));
            }

            @Override
            public void onException(Throwable failure) {
                window.ended(began, failure);
            }
        }));
    }
}
