"""The façade for scripts: no loop in sight."""

import threading

import pytest

from penstock.client.errors import Closed, NoReply, NoRoute, Unreachable
from penstock.client.message import Message
from penstock.client.positions import FIRST
from penstock.client.sync import Consumer, Producer, TransactionProducer
from penstock.client.transaction import Outcome
from penstock.testing.server import running


@pytest.fixture
def namesrv():
    with running() as penstock:
        yield penstock.addresses["namesrv"]


@pytest.fixture
def producer(namesrv):
    with Producer(namesrv, "scripts") as producer:
        yield producer


def reading(namesrv: str, group: str = "readers", **options) -> Consumer:
    return Consumer(namesrv, group, {"orders": "*"}, start=FIRST, **options)


def taken(consumer: Consumer, count: int) -> list[bytes]:
    return [message.body for _, message in zip(range(count), consumer, strict=False)]


def test_what_is_sent_is_received(namesrv, producer):
    sent = producer.send(Message("orders", b"one", tags="t"))
    with reading(namesrv) as consumer:
        message = consumer.receive(timeout_ms=20_000)
        assert (message.body, message.tags, message.message_id) == (b"one", "t", sent.message_id)
        assert consumer.receive(timeout_ms=50) is None


def test_a_loop_over_a_consumer(namesrv, producer):
    bodies = [b"%d" % number for number in range(50)]
    assert len(producer.send_all(Message("orders", body) for body in bodies)) == 50
    with reading(namesrv) as consumer:
        assert sorted(taken(consumer, 50)) == sorted(bodies)


def test_what_was_taken_is_done_when_the_consumer_is_closed(namesrv, producer):
    producer.send_batch([Message("orders", b"%d" % number) for number in range(4)])
    with reading(namesrv) as consumer:
        assert [consumer.receive(20_000).body for _ in range(2)] == [b"0", b"1"]
    with reading(namesrv) as consumer:
        assert [consumer.receive(20_000).body for _ in range(2)] == [b"2", b"3"]


def test_a_message_whose_work_failed_comes_again(namesrv, producer):
    producer.send(Message("orders", b"again"))

    def fail() -> None:
        with reading(namesrv) as consumer:
            for _ in consumer:
                raise KeyError("the work failed")

    with pytest.raises(KeyError):
        fail()
    with reading(namesrv) as consumer:
        assert consumer.receive(20_000).body == b"again"


def test_the_other_ways_of_sending(namesrv, producer):
    producer.send_oneway(Message("orders", b"oneway"))
    with reading(namesrv) as consumer:
        assert consumer.receive(20_000).body == b"oneway"
    with pytest.raises(NoReply):
        producer.request(Message("orders", b"anybody?"), timeout_ms=50)


def test_request_and_reply_between_scripts(namesrv, producer):
    producer.send(Message("orders", b"the topic is there"))

    def answer() -> None:
        with reading(namesrv) as consumer:
            for message in consumer:
                if message.body == b"question":
                    consumer.reply(message, b"answer")
                    return

    thread = threading.Thread(target=answer)
    thread.start()
    assert producer.request(Message("orders", b"question"), timeout_ms=20_000).body == b"answer"
    thread.join()


def test_errors_come_as_they_are(producer):
    with pytest.raises(ValueError, match="property"):
        producer.send(Message("orders", b"", properties={"": "x"}))
    with pytest.raises(ValueError, match="property"):
        producer.send_all([Message("orders", b"ok"), Message("orders", b"", properties={"": "x"})])
    with pytest.raises(ValueError, match="no messages"):
        producer.send_batch([])


def test_nobody_is_there():
    with Producer("127.0.0.1:1", "scripts", timeout_ms=200) as producer, pytest.raises((Unreachable, NoRoute)):
        producer.send(Message("orders", b"x"))
    with pytest.raises(Unreachable):
        reading("127.0.0.1:1")


def test_several_threads_share_a_producer(namesrv, producer):
    threads = [threading.Thread(target=producer.send, args=(Message("orders", b"x"),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with reading(namesrv) as consumer:
        assert taken(consumer, 8) == [b"x"] * 8


def test_after_its_end_a_client_says_so(namesrv):
    with Producer(namesrv, "scripts") as producer:
        pass
    with pytest.raises(Closed):
        producer.send(Message("orders", b"x"))
    with pytest.raises(Closed):
        producer.close()


def test_no_thread_is_left_behind(namesrv):
    before = threading.active_count()
    with Producer(namesrv, "scripts") as producer:
        producer.send(Message("orders", b"x"))
    with reading(namesrv) as consumer:
        consumer.receive(20_000)
    assert threading.active_count() == before


def test_a_call_from_within_itself_does_not_hang(namesrv, producer):
    caught = []

    def select(queues, message):
        with pytest.raises(Closed, match="from within itself"):
            producer.send(message)
        caught.append(message)
        return queues[0]

    producer.send(Message("orders", b"x"), select)
    assert len(caught) == 1


# --- transactions -----------------------------------------------------------------------------------------------------


@pytest.fixture
def asking():
    """A broker that soon asks about what was left open."""
    with running(rocketmq={"transaction_timeout_ms": 100, "transaction_check_interval_ms": 100}) as penstock:
        yield penstock.addresses["namesrv"]


def never(message) -> Outcome:
    raise AssertionError("nobody left anything open")


def test_a_transaction_is_worked_on_by_the_thread_that_sends_it(namesrv):
    done_by = []

    def book(message: Message, transaction_id: str) -> Outcome:
        done_by.append((threading.current_thread(), message.keys, transaction_id))
        return Outcome.ROLLBACK if message.keys == "b" else Outcome.COMMIT

    with TransactionProducer(namesrv, "booking", never) as producer:
        done = [producer.send(Message("orders", key.encode(), keys=key), book) for key in "abc"]
    assert [(one.outcome.name, one.told) for one in done] == [("COMMIT", True), ("ROLLBACK", True), ("COMMIT", True)]
    assert done_by == [
        (threading.current_thread(), key, one.sent.transaction_id) for key, one in zip("abc", done, strict=True)
    ]
    with reading(namesrv) as consumer:
        assert sorted(taken(consumer, 2)) == [b"a", b"c"]
        assert consumer.receive(timeout_ms=50) is None


def test_work_that_fails_is_told_to_whoever_sent_and_the_broker_asks(asking):
    checked, by = [], set()

    def check(message) -> Outcome:
        checked.append(message.body)
        by.add(threading.current_thread())
        return Outcome.COMMIT

    def fails(message: Message, transaction_id: str) -> Outcome:
        raise ValueError("the database is gone")

    with TransactionProducer(asking, "booking", check) as producer:
        for body in (b"one", b"two"):
            with pytest.raises(ValueError, match="the database is gone"):
                producer.send(Message("orders", body), fails)
        with reading(asking) as consumer:
            assert sorted(taken(consumer, 2)) == [b"one", b"two"]
    assert set(checked) == {b"one", b"two"}
    assert len(by) == 1
    assert threading.current_thread() not in by


def test_a_half_message_that_is_not_stored_is_not_worked_on(namesrv):
    worked = []
    with (
        TransactionProducer(namesrv, "booking", never, message_bytes_max=10) as producer,
        pytest.raises(ValueError, match="at most 10"),
    ):
        producer.send(Message("orders", bytes(11)), lambda message, transaction_id: worked.append(message))
    assert worked == []


def test_threads_share_a_producer_of_transactions(namesrv):
    def work(message: Message, transaction_id: str) -> Outcome:
        together.wait(20)  # all are in the middle of their work at once
        return Outcome.COMMIT

    together, done = threading.Barrier(4), []
    with TransactionProducer(namesrv, "booking", never) as producer:
        send = lambda number: done.append(producer.send(Message("orders", b"%d" % number), work))  # noqa: E731
        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [one.told for one in done] == [True] * 4


def test_a_producer_of_transactions_that_cannot_start_leaves_nothing_behind():
    before = threading.active_count()
    with pytest.raises(Unreachable):
        TransactionProducer("127.0.0.1:1", "booking", never, topics=["orders"])
    assert threading.active_count() == before
