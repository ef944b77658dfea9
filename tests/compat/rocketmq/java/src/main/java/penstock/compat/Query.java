package penstock.compat;

import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * {@code query --namesrv A --topic T [--key K] [--id ID] [--most N]}: looks messages up by a key, or one by the id that
 * its producer gave it. A line per message.
 */
final class Query {
    private static final int MOST = 64;

    private Query() {
    }

    static void run(Options options) throws Exception {
        DefaultMQProducer client = new DefaultMQProducer("compat-query");
        client.setNamesrvAddr(options.text("namesrv"));
        client.start();
        try {
            if (options.has("key")) {
                byKey(client, options);
            } else {
                Messages.print(client.viewMessage(options.text("topic"), options.text("id")));
            }
        } catch (MQClientException nothing) {
            Line.of().with("code", nothing.getResponseCode()).with("error", nothing.getErrorMessage()).print();
        } finally {
            client.shutdown();
        }
        Line.of().with("done", true).print();
    }

    private static void byKey(DefaultMQProducer client, Options options) throws Exception {
        client.queryMessage(options.text("topic"), options.text("key"), options.number("most", MOST), 0, Long.MAX_VALUE)
            .getMessageList().forEach(Messages::print);
    }
}
