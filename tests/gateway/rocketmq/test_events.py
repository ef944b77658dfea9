"""Events are messages of a topic that RocketMQ consumers read like any other."""

import json

from penstock.wire.rocketmq.codes import PullFlag, RequestCode
from penstock.wire.rocketmq.record import messages_in


async def test_any_consumer_reads_the_events(client):
    """The broker's start was an event: it is there as a message, by its kind as the tag, and found by its id."""
    ext = {"sysFlag": PullFlag.SUBSCRIPTION | PullFlag.SUSPEND, "subscription": "BrokerStarted"}
    answer = await client.pull("nobody", "penstock_events", 0, 0, wait_ms=10_000, **ext)
    [started, *_] = await client.messages("penstock_events", tags="BrokerStarted")
    assert (answer.code, started.topic, started.properties["TAGS"]) == (0, "penstock_events", "BrokerStarted")
    assert json.loads(started.body)["version"]
    viewed = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": started.physical_offset})
    assert messages_in(viewed.body) == [started]
