package penstock.compat;

import org.apache.rocketmq.client.ClientConfig;

/**
 * A consumer whose first heartbeat was overtaken by its own rebalance is refused until its next one, and a topic that it
 * did not find is looked for with the next poll of routes: each after 30 seconds. Here both come sooner.
 */
final class Timers {
    private static final int OFTEN_MS = 2_000;

    private Timers() {
    }

    static void shorten(ClientConfig client) {
        client.setHeartbeatBrokerInterval(OFTEN_MS);
        client.setPollNameServerInterval(OFTEN_MS);
    }
}
