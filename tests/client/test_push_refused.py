"""Pulls that a broker refuses: code 25 and the others, and what the log says of them."""

import logging

from tests.client.pushing import WAITS, Inbox, committed, consumer, owned, send, until

from penstock.client.consumer import ConsumerSettings
from penstock.client.errors import Unreachable
from penstock.client.instance import Timers
from penstock.core.topics import WRITE, TopicSettings

AN_HOUR_MS = 3_600_000


def refusals(penstock, topic: str = "orders") -> int:
    """How many pulls have been refused for their version, in the episode that is on."""
    group = penstock.server.broker.groups.find("billing")
    return sum(episode.count for (_, name), episode in group.refusals.items() if name == topic)


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def unheard() -> None:
    """A heartbeat that is lost on its way."""
    raise Unreachable("127.0.0.1:1", "it is lost")


def ahead(one, topic: str) -> None:
    """Its pulls carry a version that no heartbeat has carried: as of one that rebalanced and was lost on the way."""
    one.subscriptions[topic].told_version += AN_HOUR_MS


async def test_s05_a_refused_consumer_waits_and_keeps_its_place(penstock, producer):
    """It is the wait that ends it here: nobody comes or goes."""
    inbox = Inbox()
    await send(producer, 8)
    settings = ConsumerSettings(refused_wait_ms=100)
    async with consumer(penstock, "billing", inbox, settings=settings) as one:
        await inbox.until(8)
        ahead(one, "orders")
        await send(producer, 8, first=8)
        await until(lambda: refusals(penstock), "a refusal")
        assert owned(one) == [0, 1, 2, 3]
        await inbox.until(16)
    assert inbox.counts == {b"%d" % number: 1 for number in range(16)}


async def test_s05_a_membership_notification_ends_the_wait(penstock, producer):
    inbox = Inbox()
    await send(producer, 8)
    settings = ConsumerSettings(refused_wait_ms=AN_HOUR_MS)
    async with consumer(penstock, "billing", inbox, settings=settings) as one:
        await inbox.until(8)
        ahead(one, "orders")
        await send(producer, 8, first=8)
        await until(lambda: refusals(penstock) == 4, "the refusal of every queue")
        await send(producer, 8, first=16)
        assert len(inbox.messages) == 16
        async with consumer(penstock, "billing", inbox):  # somebody comes
            await inbox.until(24)


async def test_s06_one_line_per_episode_and_no_stack(penstock, producer, caplog):
    """However many queues are refused, and however often."""
    inbox = Inbox()
    await send(producer, 8)
    settings = ConsumerSettings(refused_wait_ms=10)
    async with consumer(penstock, "billing", inbox, settings=settings) as one:
        await inbox.until(8)
        one.instance.heartbeat = unheard  # it stays behind
        ahead(one, "orders")
        await send(producer, 8, first=8)
        await until(lambda: refusals(penstock) > 10, "refusals")
        one.subscriptions["orders"].told_version = 0
        await send(producer, 8, first=16)
        await inbox.until(24)
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(records) == 1
    assert records[0].getMessage().startswith("consumer:billing execute the pull request, code:25, message:")
    assert records[0].getMessage().endswith(", (might be ok if at rebalancing)")
    assert not records[0].exc_info


async def test_s06_retry_topics_stay_silent(penstock, producer, caplog):
    inbox = Inbox()
    await send(producer, 8)
    settings = ConsumerSettings(refused_wait_ms=10, pull_suspend_ms=10)
    async with consumer(penstock, "billing", inbox, settings=settings) as one:
        await until(lambda: owned(one, "%RETRY%billing") == [0], "the retry queue")
        ahead(one, "%RETRY%billing")
        await until(lambda: refusals(penstock, "%RETRY%billing"), "a refusal")
    assert warnings(caplog) == []


async def test_s06_other_errors_are_said_in_full_and_once(penstock, producer, caplog):
    inbox = Inbox()
    await send(producer, 8)
    async with consumer(penstock, "billing", inbox, settings=WAITS, timers=Timers(persist_interval_ms=50)) as one:
        await inbox.until(8)
        await until(lambda: sum(committed(penstock, "billing").values()) == 8, "the commit")
        caplog.clear()
        await penstock.server.broker.topics.alter("orders", TopicSettings(write_queues=4, permissions=WRITE))
        await send(producer, 8)  # ends the pulls that are held
        await until(lambda: warnings(caplog), "a warning")
        [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert record.getMessage() == "execute the pull request exception"
        assert "code 16" in record.penstock_fields["error"]
        assert "'orders'" in record.penstock_fields["error"]
        assert owned(one) == [0, 1, 2, 3]
