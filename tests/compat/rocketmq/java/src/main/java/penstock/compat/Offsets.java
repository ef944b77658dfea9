package penstock.compat;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * {@code offsets --group G --instance I [--write topic/broker/number=offset,...]}: what a broadcasting consumer keeps in its
 * file, whose folder is the property rocketmq.client.localOffsetStoreDir. Writes first, then prints the table that it reads;
 * the ClientID is that of loopback and the instance.
 */
final class Offsets {
    private Offsets() {
    }

    static void run(Options options) throws Exception {
        ClientConfig config = new ClientConfig();
        config.setClientIP("127.0.0.1");
        config.setInstanceName(options.text("instance"));
        MQClientInstance instance = new MQClientInstance(config, 0, config.buildMQClientId());
        if (options.has("write")) {
            write(new LocalFileOffsetStore(instance, options.text("group")), options.text("write").split(","));
        }
        LocalFileOffsetStore store = new LocalFileOffsetStore(instance, options.text("group"));
        store.load();
        Map<String, Object> table = new TreeMap<>();
        store.cloneOffsetTable("").forEach((queue, offset) -> table.put(
            String.join("/", queue.getTopic(), queue.getBrokerName(), String.valueOf(queue.getQueueId())), offset));
        Line.of().with("clientId", instance.getClientId()).with("offsets", table).print();
        Line.of().with("done", true).print();
    }

    private static void write(LocalFileOffsetStore store, String[] pairs) throws Exception {
        store.load();
        Set<MessageQueue> queues = new HashSet<>();
        for (String pair : pairs) {
            String[] parts = pair.substring(0, pair.lastIndexOf('=')).split("/");
            MessageQueue queue = new MessageQueue(parts[0], parts[1], Integer.parseInt(parts[2]));
            queues.add(queue);
            store.updateOffset(queue, Long.parseLong(pair.substring(pair.lastIndexOf('=') + 1)), false);
        }
        store.persistAll(queues);
    }
}
