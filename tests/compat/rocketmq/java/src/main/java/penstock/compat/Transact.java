package penstock.compat;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * {@code transact --namesrv A --topic T --group G --count N [--outcomes commit,rollback,unknown] [--answers commit,...]
 * [--immunity-s N]} and what {@link Messages} takes: {@code {"ready":true}} once started; a line per message sent, whose outcome
 * is that of its number; a line per question of the broker, answered in turn; until standard input ends.
 */
final class Transact {
    private static final Map<String, LocalTransactionState> STATES = Map.of(
        "commit", LocalTransactionState.COMMIT_MESSAGE,
        "rollback", LocalTransactionState.ROLLBACK_MESSAGE,
        "unknown", LocalTransactionState.UNKNOW);

    private Transact() {
    }

    static void run(Options options) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(options.text("group"));
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setTransactionListener(new Listener(options));
        producer.start();
        Line.of().with("ready", true).print();
        List<Message> messages = Messages.numbered(options);
        for (int number = 0; number < messages.size(); number++) {
            send(producer, messages.get(number), number, options);
        }
        while (System.in.read() >= 0) {
            // until there is nothing more to read
        }
        producer.shutdown();
        Line.of().with("done", true).print();
    }

    private static void send(TransactionMQProducer producer, Message message, int number, Options options)
        throws Exception {
        if (options.has("immunity-s")) {
            message.putUserProperty("CHECK_IMMUNITY_TIME_IN_SECONDS", options.text("immunity-s"));
        }
        try {
            TransactionSendResult result = producer.sendMessageInTransaction(message, number);
            Line.of().with("number", number)
                .with("msgId", result.getMsgId())
                .with("transactionId", result.getTransactionId())
                .with("queueId", result.getMessageQueue().getQueueId())
                .with("status", result.getSendStatus())
                .with("state", result.getLocalTransactionState())
                .print();
        } catch (MQClientException refusal) {
            Line.of().with("number", number).with("status", "REFUSED").with("error", refusal.toString()).print();
        }
    }

    private static final class Listener implements TransactionListener {
        private final String[] outcomes;
        private final String[] answers;

        Listener(Options options) {
            outcomes = options.text("outcomes", "commit").split(",");
            answers = options.text("answers", "commit").split(",");
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object number) {
            return STATES.get(outcomes[(int) number % outcomes.length]);
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            int number = Integer.parseInt(body.substring(body.lastIndexOf('-') + 1));
            String answer = answers[number % answers.length];
            Line.of().with("asked", body)
                .with("answer", answer)
                .with("topic", message.getTopic())
                .with("msgId", message.getMsgId())
                .with("transactionId", message.getTransactionId())
                .with("times", message.getUserProperty("TRANSACTION_CHECK_TIMES"))
                .print();
            return STATES.get(answer);
        }
    }
}
