"""Message traces: clients that trace write down what they sent and consumed, and it can be read and looked up.

A trace is text: fields with \\x01 between them, one record behind the other with \\x02. The first field is the kind.
"""

import time

import pytest
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5, WAIT_S

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
EACH = pytest.mark.parametrize("client", [JAVA_4, JAVA_5, GO], ids=lambda client: client.name)


def kinds_of(traces, ids):
    """Which kinds of records there are of each message."""
    records = [record for line in traces for record in str(line["body"]).split("\x02")]
    return {msg_id: {record.split("\x01")[0] for record in records if msg_id in record} for msg_id in ids}


def traced(traces, seen, ids, kinds):
    """Wait until these kinds are there of all messages; whether they are in time."""
    deadline = time.monotonic() + WAIT_S / 3
    while not all(kinds <= found for found in kinds_of(seen, ids).values()):
        if time.monotonic() > deadline:
            return False
        seen += traces.waiting()
    return True


@EACH
def test_what_was_sent_and_consumed_is_traced(client, use, new_topic, group):
    """A Java 4.9 producer that ends loses its last traces now and then: then it sends again. A consumer does not."""
    topic = new_topic()
    with (
        use(JAVA_5).push(TRACE_TOPIC, f"{group}-traces") as traces,
        use(client).push(topic, group, "--trace") as consumer,
    ):
        seen = []
        for _ in range(3):
            sent = use(client).produce(topic, 4, "--trace", "--keys", "--label", group)
            consumer.take(4)
            ids = {str(line["msgId"]) for line in sent}
            assert traced(traces, seen, ids, {"SubBefore", "SubAfter"})
            if traced(traces, seen, ids, {"Pub"}):
                return
        pytest.fail("what was sent is not traced, three times")


@EACH
def test_a_trace_is_looked_up_by_the_message_s_id(client, use, admin, new_topic, group):
    topic = new_topic()
    with use(JAVA_5).push(TRACE_TOPIC, f"{group}-traces") as traces:
        sent = use(client).produce(topic, 2, "--trace")
        ids, seen = {str(line["msgId"]) for line in sent}, []
        while not all(kinds_of(seen, ids).values()):
            seen.append(traces.next())
        printed = admin("queryMsgTraceById", "-i", str(sent[1]["msgId"]))
    rows = [line.split() for line in printed.splitlines() if line.startswith("Pub")]
    assert [(row[0], row[-1]) for row in rows] == [("Pub", "success")], printed
