package penstock.compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * {@code allocate}: what the client's strategies give. A line on standard input is one question:
 * strategy TAB sorted? TAB what the strategy is set to TAB ClientID TAB queues TAB ClientIDs; lists have 0x1f between their
 * items, a queue is topic 0x1e broker 0x1e number. The answer is {@code {"share": queues}} or {@code {"error": message}}. A room is
 * what stands before the @.
 */
final class Allocate {
    private static final String ITEM = "\u001f";
    private static final String PART = "\u001e";

    private Allocate() {
    }

    static void run(Options options) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null && !line.isEmpty(); line = lines.readLine()) {
            answer(line.split("\t", -1));
        }
        Line.of().with("done", true).print();
    }

    private static void answer(String[] question) {
        List<MessageQueue> queues = queues(question[4]);
        List<String> clientIds = items(question[5]);
        if (Boolean.parseBoolean(question[1])) {
            Collections.sort(queues);
            Collections.sort(clientIds);
        }
        try {
            List<MessageQueue> share = strategy(question[0], question[2]).allocate("g", question[3], queues, clientIds);
            Line.of().with("share", share.stream().map(Allocate::text).collect(Collectors.joining(ITEM))).print();
        } catch (IllegalArgumentException refusal) {
            Line.of().with("error", refusal.getMessage()).print();
        }
    }

    /** A strategy by RocketMQ's name for it, set to something: queues, rooms, or how many points on the ring. */
    static AllocateMessageQueueStrategy strategy(String name, String setting) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONFIG":
                AllocateMessageQueueByConfig byConfig = new AllocateMessageQueueByConfig();
                byConfig.setMessageQueueList(queues(setting));
                return byConfig;
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
                byRoom.setConsumeridcs(new HashSet<>(items(setting)));
                return byRoom;
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash(Integer.parseInt(setting));
            default:
                return new AllocateMachineRoomNearby(strategy(name.substring(name.indexOf('-') + 1), setting), new Rooms());
        }
    }

    private static final class Rooms implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return consumerDeployIn(queue.getBrokerName());
        }

        @Override
        public String consumerDeployIn(String clientId) {
            return clientId.contains("@") ? clientId.substring(0, clientId.indexOf('@')) : clientId;
        }
    }

    private static List<String> items(String text) {
        return text.isEmpty() ? new ArrayList<>() : new ArrayList<>(Arrays.asList(text.split(ITEM, -1)));
    }

    private static List<MessageQueue> queues(String text) {
        return items(text).stream().map(Allocate::queue).collect(Collectors.toCollection(ArrayList::new));
    }

    private static MessageQueue queue(String text) {
        String[] parts = text.split(PART, -1);
        return new MessageQueue(parts[0], parts[1], Integer.parseInt(parts[2]));
    }

    private static String text(MessageQueue queue) {
        return String.join(PART, queue.getTopic(), queue.getBrokerName(), String.valueOf(queue.getQueueId()));
    }
}
