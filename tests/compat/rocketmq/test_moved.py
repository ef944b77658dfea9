"""OFFSET_MOVED_EVENT: an ordinary consumer reads there which pulls were corrected."""

import json
import socket

import pytest
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5

TOPIC = "OFFSET_MOVED_EVENT"


def pull_outside(address, topic, group, offset):
    """One request of the protocol, since clients do not ask for such an offset when they are told to."""
    numbers = {"queueOffset": offset, "maxMsgNums": 1, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0}
    ext = {"consumerGroup": group, "topic": topic, "queueId": 0, "subscription": "*", "subVersion": 0, **numbers}
    fields = {name: str(value) for name, value in ext.items()}
    header = json.dumps({"code": 11, "extFields": fields, "flag": 0, "language": "OTHER", "opaque": 1}).encode()
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 5) as connection, connection.makefile("rb") as answers:
        connection.sendall((4 + len(header)).to_bytes(4) + len(header).to_bytes(4) + header)
        answers.read(4)
        return json.loads(answers.read(int.from_bytes(answers.read(4)) & 0xFFFFFF))["code"]


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5, GO], ids=lambda client: client.name)
def test_a_consumer_reads_of_corrected_pulls(client, use, broker, new_topic, group):
    if broker.kind != "penstock":
        pytest.skip("RocketMQ 5.x only logs them; 4.9 writes them")
    topic = new_topic()
    with use(client).push(TOPIC, f"{group}-watching", "--tags", group) as watching:
        assert pull_outside(broker.namesrv, topic, group, 77) == 21
        (event,) = watching.take(1)
    assert (event["tags"], event["topic"]) == (group, TOPIC)
    assert json.loads(str(event["body"])) == {
        "consumerGroup": group,
        "messageQueue": {"brokerName": "penstock", "queueId": 0, "topic": topic},
        "offsetNew": 0,
        "offsetRequest": 77,
    }
