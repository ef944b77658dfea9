package penstock.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * {@code send mode=sync threads=16}, {@code mode=async window=1000} or {@code mode=batch threads=4 batch=32}, each with
 * {@code warm=1 seconds=5 bytes=1024 queues=4}: as fast as it goes, through one producer, for so many seconds.
 */
final class Send {
    private static final long DRAIN_S = 30;
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
        this.body = Clients.body(request);
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
                answered(began, once.send());
            } catch (Exception failure) {
                tally.failed(failure);
            }
        }
    }

    private void answered(long began, SendResult result) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            tally.took(System.nanoTime() - began);
        } else {
            tally.failed(new IllegalStateException(result.getSendStatus().name()));
        }
    }

    private void async(long until) throws Exception {
        int window = request.number("window");
        Semaphore open = new Semaphore(window);
        for (long began = System.nanoTime(); began < until && tally.failures() < FAILURES_MAX; began = System.nanoTime()) {
            open.acquire();
            producer.send(Clients.message(request, body), new Answer(System.nanoTime(), open));
        }
        if (!open.tryAcquire(window, DRAIN_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("sends were neither answered nor failed within " + DRAIN_S + " s");
        }
    }

    private final class Answer implements SendCallback {
        private final long began;
        private final Semaphore open;

        Answer(long began, Semaphore open) {
            this.began = began;
            this.open = open;
        }

        @Override
        public void onSuccess(SendResult result) {
            answered(began, result);
            open.release();
        }

        @Override
        public void onException(Throwable failure) {
            tally.failed(failure);
            open.release();
        }
    }
}
