"""Ranges of queues from a broker to record batches: what is in them, and what happens when they are there no more."""

import asyncio
import gc
import socket
import threading
import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StructField, StructType

from penstock.client import Message, Producer
from penstock.client.errors import BrokerBusy, Lost, Refused, Unreachable
from penstock.client.routes import MessageQueue
from penstock.spark import columns, fetch, link, tasks
from penstock.spark.errors import DataLost
from penstock.spark.fetch import Answer, Gone, Steps, answers
from penstock.spark.link import Link, Links
from penstock.spark.options import BATCH, Options, read_options
from penstock.spark.ranges import Range
from penstock.spark.read import read, together
from penstock.testing.server import Running
from penstock.wire.rocketmq.codes import Flag
from penstock.wire.rocketmq.frame import pack

ALL_COLUMNS = columns.schema(properties=True)
FEW = StructType([field for field in ALL_COLUMNS if field.name in ("offset", "body")])


def filled(penstock: Running, topic: str, messages: list[Message], queue: int = 0) -> Range:
    """All of them in one queue; the range that holds them."""

    async def produce() -> Range:
        async with Producer(penstock.addresses["namesrv"], "fill") as producer:
            (broker,) = {found.broker for found in await producer.queues(topic)}
            place = MessageQueue(topic, broker, queue)
            for at in range(0, len(messages), 500):
                await producer.send_batch(messages[at : at + 500], place)
            address = producer.instance.cluster.address(broker)
            return Range(topic, broker, address, queue, 0, len(messages))

    return asyncio.run(produce())


def some(topic: str, count: int, body_bytes: int = 20) -> list[Message]:
    return [
        Message(topic, b"%d" % at + b"x" * body_bytes, tags=f"t{at % 3}", keys=f"k{at}", properties={"n": str(at)})
        for at in range(count)
    ]


def options(service: str, topic: str, **more: str) -> Options:
    return read_options({"service": service, "topic": topic, **more}, BATCH)


def pulled(source: Range, **more: object) -> Iterator[Answer | Gone]:
    with Links() as links:
        yield from answers(source, links, "g", **more)  # type: ignore[arg-type]


def rows(ranges: list[Range], asked: Options, schema: StructType = ALL_COLUMNS) -> list[dict[str, object]]:
    return pa.Table.from_batches(read(ranges, asked, schema), columns.arrow_schema(schema)).to_pylist()


@pytest.fixture
def orders(penstock: Running, new_name: Callable[[str], str]) -> Range:
    topic = new_name("orders")
    return filled(penstock, topic, some(topic, 1_000))


def test_a_range_has_its_messages(orders: Range, service: str):
    found = rows([orders], options(service, orders.topic))
    assert [row["offset"] for row in found] == list(range(1_000))
    row = found[7]
    assert (row["topic"], row["queue"], row["broker"]) == (orders.topic, 0, orders.broker)
    assert (row["key"], row["tags"], row["body"][:1]) == ("k7", "t1", b"7")
    assert dict(row["properties"]) == {"n": "7"}, "and what has a column is not there once more"
    assert row["store_time"] >= row["born_time"]


def test_properties_alone_are_all_that_have_no_column(orders: Range, service: str):
    alone = StructType([StructField("properties", columns.COLUMNS["properties"])])
    (row, *_) = rows([orders], options(service, orders.topic), alone)
    found = dict(row["properties"])
    assert found.keys() == {"n", "KEYS", "TAGS", "UNIQ_KEY"}
    assert (found["n"], found["KEYS"], found["TAGS"]) == ("0", "k0", "t0")


def test_all_properties_can_be_asked_for(orders: Range, service: str):
    (row, *_) = rows([orders], options(service, orders.topic, includeProperties="all"))
    found = dict(row["properties"])
    assert (found["n"], found["KEYS"], found["TAGS"], found["UNIQ_KEY"]) == ("0", "k0", "t0", row["message_id"])
    assert found.keys() >= {"CLUSTER", "MSG_REGION", "TRACE_ON"}


def test_ranges_of_one_broker_share_a_connection_and_small_ones_a_batch(
    orders: Range, service: str, monkeypatch: pytest.MonkeyPatch
):
    opened: list[str] = []
    monkeypatch.setattr(link, "Link", lambda address: opened.append(address) or Link(address))
    few = [Range(orders.topic, orders.broker, orders.address, 0, at, at + 10) for at in range(0, 80, 10)]
    (batch,) = read(few, options(service, orders.topic), FEW)
    assert batch.column("offset").to_pylist() == list(range(80))
    assert [body[:2] for body in batch.column("body").to_pylist()] == [
        b"%d" % at + b"x" * (at < 10) for at in range(80)
    ]
    assert opened == [orders.address]


def test_a_range_that_is_left_in_the_middle_leaves_nothing_to_the_next(orders: Range):
    with Links() as links:
        steps = Steps(messages_max=10, under_way_max=8)
        for answer in answers(orders, links, "g", steps=steps):
            if answer.until > 50:
                break
        (first, *_) = answers(orders, links, "g", steps=steps)
        assert isinstance(first, Answer)
        assert (first.first, first.until) == (0, 10)


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """As in a worker that has read nothing yet."""
    gc.unfreeze()
    tasks.keep_modules.cache_clear()
    yield
    gc.unfreeze()
    tasks.keep_modules.cache_clear()


@pytest.mark.usefixtures("unfrozen")
def test_modules_are_not_looked_through_for_garbage_after_each_task(orders: Range, service: str):
    task, asked = tasks.Task((orders,)), options(service, orders.topic)
    assert sum(batch.num_rows for batch in tasks.rows(task, asked, FEW)) == 1_000
    kept = gc.get_freeze_count()
    assert kept > 10_000
    assert len(gc.get_objects()) < 1_000  # what was loaded while it read is kept apart, too
    later = [[number] for number in range(1_000)]
    list(tasks.rows(task, asked, FEW))
    assert gc.get_freeze_count() < kept + len(later)  # that is the user's, and may be garbage one day


@pytest.mark.parametrize(
    ("sizes", "joined"), [([], []), ([5], [5]), ([2_000], [2_000]), ([5, 2_000, 2_000, 7, 8], [2_005, 2_000, 15])]
)
def test_small_batches_are_put_together(sizes: list[int], joined: list[int]):
    numbers = iter(range(10_000))
    batches = [pa.record_batch({"n": [next(numbers) for _ in range(size)]}) for size in sizes]
    found = list(together(batches))
    assert [batch.num_rows for batch in found] == joined
    assert [n for batch in found for n in batch.column("n").to_pylist()] == list(range(sum(sizes)))


def test_a_part_of_it_too(orders: Range, service: str):
    part = Range(orders.topic, orders.broker, orders.address, 0, 300, 310)
    found = rows([part, Range(orders.topic, orders.broker, orders.address, 0, 5, 6)], options(service, orders.topic))
    assert [row["offset"] for row in found] == [*range(300, 310), 5]


def test_tags_are_filtered(orders: Range, service: str):
    found = rows([orders], options(service, orders.topic, tags="t1 || t2"))
    assert [row["offset"] for row in found] == [at for at in range(1_000) if at % 3]


def test_tags_that_nobody_has_bring_nothing(orders: Range, service: str):
    assert rows([orders], options(service, orders.topic, tags="nothing")) == []


def test_bodies_that_were_compressed_are_opened(penstock: Running, service: str, new_name: Callable[[str], str]):
    topic = new_name("large")

    async def produce() -> str:
        async with Producer(penstock.addresses["namesrv"], "fill") as producer:
            sent = await producer.send(Message(topic, b"z" * 100_000))
            return f"{sent.queue.broker}/{producer.instance.cluster.address(sent.queue.broker)}/{sent.queue.queue}"

    broker, address, queue = asyncio.run(produce()).split("/")
    (row,) = rows([Range(topic, broker, address, int(queue), 0, 1)], options(service, topic), FEW)
    assert row["body"] == b"z" * 100_000
    (answer,) = pulled(Range(topic, broker, address, int(queue), 0, 1))
    assert isinstance(answer, Answer)
    assert zlib.compress(b"z" * 100_000, 5) in bytes(answer.body)  # it went over the wire as it was sent


@pytest.mark.parametrize(
    "steps",
    [
        Steps(),
        Steps(messages_max=32, under_way_max=4),
        Steps(messages_max=7, under_way_max=16),
        Steps(bytes_max=1, under_way_max=3),  # the broker gives 256 KB all the same
    ],
)
def test_answers_join_without_gap_or_overlap(penstock: Running, new_name: Callable[[str], str], steps: Steps):
    topic = new_name("steps")
    source = filled(penstock, topic, some(topic, 3_000, body_bytes=400))
    at = 0
    for answer in pulled(source, steps=steps):
        assert isinstance(answer, Answer)
        assert answer.first == at
        at = answer.until
    assert at == 3_000


def test_several_pulls_are_under_way_once_it_is_known_what_one_brings(orders: Range, monkeypatch: pytest.MonkeyPatch):
    seen = []
    real = fetch._Puller._top_up

    def noted(self, link):
        real(self, link)
        seen.append(len(self._under_way))

    monkeypatch.setattr(fetch._Puller, "_top_up", noted)
    list(pulled(orders, steps=Steps(messages_max=10, under_way_max=8)))
    assert seen[0] == 1
    assert max(seen) == 8


class Short(fetch._Puller):
    """As if the broker gave 32 at a time."""

    def _pull(self, link, first, until):
        pull = super()._pull(link, first, min(until, first + 32))
        return pull._replace(until=until)


def test_a_broker_that_gives_little_is_asked_ahead_all_the_same(orders: Range, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetch, "_Puller", Short)
    found = list(pulled(orders))
    assert [answer.first for answer in found[1:]] == [answer.until for answer in found[:-1]]
    assert (found[0].first, found[-1].until) == (0, 1_000)
    assert all(answer.until - answer.first <= 32 for answer in found)


class Bordered(fetch._Puller):
    """As if the broker ended one answer at offset 250, whatever was asked for."""

    def _pull(self, link, first, until):
        pull = super()._pull(link, first, min(until, 250) if first < 250 else until)
        return pull._replace(until=until)


def test_one_short_answer_does_not_make_all_others_short(orders: Range, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetch, "_Puller", Bordered)
    found = list(pulled(orders, steps=Steps(messages_max=100)))
    assert [(answer.first, answer.until) for answer in found[2:5]] == [(200, 250), (250, 300), (300, 400)]
    widths = [answer.until - answer.first for answer in found if answer.first >= 300]
    assert widths == [100] * 7


class Fewer(fetch._Puller):
    """As if the broker gave 32 messages at most, and 20 from offset 300 on: they are larger there."""

    def _pull(self, link, first, until):
        pull = super()._pull(link, first, min(until, first + (32 if first < 300 else 20)))
        return pull._replace(until=until)


def test_a_broker_that_gives_less_from_some_offset_on_is_asked_for_less(orders: Range, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetch, "_Puller", Fewer)
    found = list(pulled(orders))
    assert [answer.first for answer in found[1:]] == [answer.until for answer in found[:-1]]
    widths = [answer.until - answer.first for answer in found if answer.first >= 820]  # behind what was under way
    assert set(widths[:-1]) == {19}  # a little less than it gives, so that none is short


# --- when it is not there ---------------------------------------------------------------------------------------------


def test_what_is_behind_the_end_is_told(orders: Range, service: str):
    gone = Range(orders.topic, orders.broker, orders.address, 0, 900, 1_100)
    told = [answer for answer in pulled(gone) if isinstance(answer, Gone)]
    assert [(answer.first, answer.until) for answer in told] == [(1_000, 1_100)]
    with pytest.raises(DataLost, match=r"100 messages of .* are not there: the queue ends at offset 1000"):
        rows([gone], options(service, orders.topic))
    found = rows([gone], options(service, orders.topic, failOnDataLoss="false"))
    assert [row["offset"] for row in found] == list(range(900, 1_000))


def test_a_broker_that_is_not_there_is_an_error_of_one_sentence(service: str):
    waits = []
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 cannot be reached") as error:
        list(pulled(Range("t", "b", "127.0.0.1:1", 0, 0, 5), wait=waits.append))
    assert len(waits) == fetch.TRIES - 1
    assert "\n" not in str(error.value)


def test_a_refusal_is_an_error_at_once(orders: Range):
    with pytest.raises(Refused, match="queues 0 to"):
        list(pulled(Range(orders.topic, orders.broker, orders.address, 99, 0, 5)))


def test_where_the_queue_begins_behind_the_range_is_told(penstock: Running, orders: Range, service: str):
    broker = penstock.server.broker
    broker.store.trim(broker.topics.get(orders.topic).queue(0), 400)  # nothing else goes on in this broker now
    first, *others = pulled(orders)
    assert (first.first, first.until, first.why) == (0, 400, "the queue begins at offset 400 by now")
    assert (others[0].first, others[-1].until) == (400, 1_000)
    with pytest.raises(DataLost, match=r"400 messages of .* the queue begins at offset 400 by now"):
        rows([orders], options(service, orders.topic), FEW)


def test_what_the_broker_leaves_out_is_missed(orders: Range, service: str, monkeypatch: pytest.MonkeyPatch):
    """As it does with messages whose bytes are damaged."""
    real = fetch._found

    def without_messages(frame, pull, source):
        answer = real(frame, pull, source)
        return answer._replace(body=memoryview(b"")) if answer.first == 0 else answer

    monkeypatch.setitem(fetch._TAKEN, 0, without_messages)
    with pytest.raises(DataLost, match=r"1000 messages of .* the broker has left them out"):
        rows([orders], options(service, orders.topic), FEW)


# --- the connection ---------------------------------------------------------------------------------------------------


class Impostor:
    """A broker that says what it is told to, connection by connection."""

    def __init__(self, *scripts: Callable[[socket.socket], None]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, args=(scripts,), daemon=True)
        self._thread.start()

    def _run(self, scripts: tuple[Callable[[socket.socket], None], ...]) -> None:
        for script in scripts:
            connection, _ = self._server.accept()
            with connection:
                script(connection)

    def close(self) -> None:
        self._thread.join(10)
        self._server.close()


def frame(opaque: int, code: int = 0, body: bytes = b"", **ext: str) -> bytes:
    return pack(code, opaque, Flag.RESPONSE, 409, ext=ext, body=body)


def saying(data: bytes) -> Callable[[socket.socket], None]:
    def script(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):  # closing with something unread would take back what was said
            pass

    return script


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00",
        b"\x7f\xff\xff\xff\x00\x00\x00\x00",  # a frame of two gigabytes
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\x00\x00\x04nope",
        frame(1)[:-3],
    ],
    ids=["nothing", "cut off", "huge", "huge at once", "empty", "no header", "cut off later"],
)
def test_a_broker_that_talks_nonsense_is_an_error(data: bytes):
    impostor = Impostor(saying(data))
    with Link(impostor.address) as link, pytest.raises(Lost):
        link.ask(11, {})
    impostor.close()


def test_answers_are_taken_by_their_numbers():
    impostor = Impostor(saying(frame(9) + frame(2, body=b"second") + frame(1, body=b"first" * 50_000)))
    with Link(impostor.address) as link:
        first, second = link.send(11, {}), link.send(11, {})
        assert bytes(link.answer(first).body) == b"first" * 50_000
        assert bytes(link.answer(second).body) == b"second"
    impostor.close()


def test_an_answer_that_nobody_wants_any_more_is_not_kept():
    impostor = Impostor(saying(frame(1, body=b"late") + frame(2, body=b"wanted")))
    with Link(impostor.address) as link:
        link.forget(link.send(11, {}))
        assert bytes(link.ask(11, {}).body) == b"wanted"
        assert not link._early
    impostor.close()


@pytest.fixture
def first_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The next connections go elsewhere, one after the other; those behind them where they should."""

    def through(*addresses: str) -> None:
        left = iter(addresses)
        monkeypatch.setattr(link, "Link", lambda address: Link(next(left, address)))

    return through


def test_a_pull_goes_on_after_the_connection_is_lost(orders: Range, first_to: Callable[..., None]):
    """The first connection ends in the middle of an answer; the second one is the real broker's."""
    broken, waits = Impostor(saying(b"\x00\x00\x10\x00")), list[float]()
    first_to(broken.address)
    found = list(pulled(orders, wait=waits.append))
    broken.close()
    assert (found[0].first, found[-1].until, len(waits)) == (0, 1_000, 1)


def test_a_busy_broker_is_asked_again(orders: Range, first_to: Callable[..., None]):
    busy, waits = Impostor(saying(frame(1, code=2)), saying(frame(1, code=215))), list[float]()
    first_to(busy.address, busy.address)
    assert [answer.until for answer in pulled(orders, wait=waits.append)][-1] == 1_000
    busy.close()
    assert waits[1] > waits[0]


def test_a_broker_that_does_not_go_on_is_given_up():
    scripts = [saying(frame(1, nextBeginOffset="0")) for _ in range(fetch.TRIES)]
    stuck = Impostor(*scripts)
    with pytest.raises(BrokerBusy, match="does not go on"):
        list(pulled(Range("t", "b", stuck.address, 0, 0, 5), wait=lambda _: None))
    stuck.close()
