"""Transactions with a broker in this process: told, left open and asked about."""

import asyncio
import logging
from types import SimpleNamespace

import pytest
from tests.client.stored import bodies

from penstock.client.message import Message, Received
from penstock.client.transaction import Outcome, TransactionProducer
from penstock.testing.server import serving
from penstock.wire.rocketmq.codes import RequestCode

ASK_SOON = {"transaction_timeout_ms": 100, "transaction_check_interval_ms": 100}


@pytest.fixture
async def penstock():
    async with serving(rocketmq=ASK_SOON) as running:
        yield running


class Ledger:
    """The application: what it answers to a broker's question, and what it was asked."""

    def __init__(self, *answers: Outcome | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[Received] = []
        self.was_asked = asyncio.Event()

    async def check(self, message: Received) -> Outcome:
        self.asked.append(message)
        self.was_asked.set()
        answer = self._answers.pop(0) if self._answers else Outcome.UNKNOWN
        if isinstance(answer, Exception):
            raise answer
        return answer


def says(outcome: Outcome):
    async def work(message: Message, transaction_id: str) -> Outcome:
        return outcome

    return work


async def arrived(producer: TransactionProducer, topic: str, count: int) -> list[bytes]:
    """The bodies of a topic, once there are so many."""
    while len(found := await bodies(producer.producer, topic)) < count:
        await asyncio.sleep(0.02)
    return found


async def test_a_committed_message_arrives_and_a_rolled_back_one_does_not(penstock):
    ledger = Ledger()
    async with TransactionProducer(penstock.addresses["namesrv"], "tests", ledger.check) as producer:
        no = await producer.send(Message("orders", b"no"), says(Outcome.ROLLBACK))
        yes = await producer.send(Message("orders", b"yes", tags="t", keys="k"), says(Outcome.COMMIT))
        assert [(one.outcome, one.told) for one in (no, yes)] == [(Outcome.ROLLBACK, True), (Outcome.COMMIT, True)]
        assert await arrived(producer, "orders", 1) == [b"yes"]
    assert ledger.asked == []


async def test_the_work_is_done_after_the_message_is_stored_and_before_it_is_seen(penstock):
    async with TransactionProducer(penstock.addresses["namesrv"], "tests", Ledger().check) as producer:
        seen = []

        async def work(message: Message, transaction_id: str) -> Outcome:
            seen.append((transaction_id, await arrived(producer, "orders", 0)))
            return Outcome.COMMIT

        done = await producer.send(Message("orders", b"x"), work)
        assert seen == [(done.sent.transaction_id, [])]
        assert done.sent.transaction_id == done.sent.message_id


@pytest.mark.parametrize("answer", [Outcome.COMMIT, Outcome.ROLLBACK])
async def test_what_is_left_open_is_asked_about_and_the_answer_counts(answer, penstock):
    ledger = Ledger(answer)
    async with TransactionProducer(penstock.addresses["namesrv"], "tests", ledger.check) as producer:
        done = await producer.send(Message("orders", b"open", keys="k7"), says(Outcome.UNKNOWN))
        assert (done.outcome, done.told) == (Outcome.UNKNOWN, False)
        await ledger.was_asked.wait()
        await producer.send(Message("orders", b"later"), says(Outcome.COMMIT))
        wanted = {b"open", b"later"} if answer is Outcome.COMMIT else {b"later"}
        assert set(await arrived(producer, "orders", len(wanted))) == wanted
    [asked] = ledger.asked
    assert (asked.topic, asked.body, asked.keys, asked.message_id) == ("orders", b"open", "k7", done.sent.message_id)
    assert asked.broker_address == penstock.addresses["broker"]


async def test_work_that_raises_is_passed_on_and_asked_about(penstock):
    ledger = Ledger(Outcome.COMMIT)

    async def work(message: Message, transaction_id: str) -> Outcome:
        raise KeyError("after it was done, or before?")

    async with TransactionProducer(penstock.addresses["namesrv"], "tests", ledger.check) as producer:
        with pytest.raises(KeyError):
            await producer.send(Message("orders", b"x"), work)
        assert await arrived(producer, "orders", 1) == [b"x"]
    assert len(ledger.asked) == 1


async def test_a_check_that_raises_is_asked_again(penstock, caplog):
    ledger = Ledger(KeyError("the database is away"), Outcome.UNKNOWN, Outcome.COMMIT)
    async with TransactionProducer(penstock.addresses["namesrv"], "tests", ledger.check) as producer:
        await producer.send(Message("orders", b"x"), says(Outcome.UNKNOWN))
        assert await arrived(producer, "orders", 1) == [b"x"]
    assert len(ledger.asked) == 3
    assert [one.message for one in caplog.records if one.levelno == logging.ERROR] == [
        "a transaction could not be checked, the broker will ask again"
    ]


async def test_the_next_producer_of_the_group_is_asked_from_its_start_on(penstock):
    servers, ledger = penstock.addresses["namesrv"], Ledger(Outcome.COMMIT)
    async with TransactionProducer(servers, "tests", Ledger().check) as first:
        await first.send(Message("orders", b"x"), says(Outcome.UNKNOWN), first_check_s=1)
    async with TransactionProducer(servers, "tests", ledger.check, topics=["orders"]) as second:
        assert await arrived(second, "orders", 1) == [b"x"]
    assert len(ledger.asked) == 1


async def test_each_of_two_groups_on_one_instance_is_asked_about_its_own(penstock):
    one, other = Ledger(Outcome.COMMIT), Ledger(Outcome.COMMIT)
    servers = penstock.addresses["namesrv"]
    async with TransactionProducer(servers, "one", one.check) as first:
        shared = {"instance": first.producer.instance}
        async with TransactionProducer(servers, "other", other.check, **shared) as second:
            await second.send(Message("orders", b"second's"), says(Outcome.UNKNOWN))
            assert await arrived(second, "orders", 1) == [b"second's"]
    assert (len(one.asked), len(other.asked)) == (0, 1)


async def test_a_delayed_message_is_refused(penstock):
    async with TransactionProducer(penstock.addresses["namesrv"], "tests", Ledger().check) as producer:
        with pytest.raises(ValueError, match="delayed"):
            await producer.send(Message("orders", b"x", delay_ms=5), says(Outcome.COMMIT))


async def test_an_outcome_that_the_broker_does_not_take_is_no_error(penstock, caplog):
    async with TransactionProducer(penstock.addresses["namesrv"], "tests", Ledger().check) as producer:

        async def work(message: Message, transaction_id: str) -> Outcome:
            producer.group = "somebody else's"  # so that the broker refuses what it is told
            return Outcome.COMMIT

        done = await producer.send(Message("orders", b"x"), work)
    assert (done.outcome, done.told) == (Outcome.COMMIT, False)
    assert "an outcome was not taken, the broker will ask" in caplog.messages


async def test_a_question_that_cannot_be_read_is_left_alone(penstock, caplog):
    async with TransactionProducer(penstock.addresses["namesrv"], "tests", Ledger().check) as producer:
        link = SimpleNamespace(address="10.0.0.1:1")
        question = SimpleNamespace(code=RequestCode.CHECK_TRANSACTION_STATE, body=memoryview(b"garbage"), ext={})
        assert producer.producer.asked(question, link) is False
    assert "a broker asks about a message that cannot be read" in caplog.messages
