"""The six strategies: their worked examples, their errors, and that nothing is forgotten or given twice.

That they give what the Java classes give is shown in tests/compat/client/test_allocate.py.
"""

import logging
import random
from itertools import chain

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.allocate import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
)
from penstock.client.routes import MessageQueue, Route, ids_in_order, in_order, java_order


def room_of(text: object) -> str:
    """What stands before the @, of a broker or a ClientID."""
    return (text.broker if isinstance(text, MessageQueue) else str(text)).partition("@")[0]


NEARBY = MachineRoomNearby(Averagely(), room_of, room_of)
CHECKED = [Averagely(), AveragelyByCircle(), ByMachineRoom({"hz"}), NEARBY, ConsistentHash()]
SHARING = [Averagely(), AveragelyByCircle(), NEARBY, ConsistentHash()]  # all queues to somebody
named = pytest.mark.parametrize


def queues_of(count: int, broker: str = "broker-a", topic: str = "TopicTest") -> list[MessageQueue]:
    return [MessageQueue(topic, broker, number) for number in range(count)]


def shares(strategy, queues, client_ids) -> list[list[int]]:
    """The numbers of the queues that each gets."""
    return [[queue.queue for queue in strategy.allocate("g", one, queues, client_ids)] for one in client_ids]


# --- the worked examples ----------------------------------------------------------------------------------------------


@named(
    ("queues", "clients", "counts"),
    [
        (8, 2, [4, 4]),
        (7, 2, [4, 3]),
        (12, 5, [3, 3, 2, 2, 2]),
        (13, 5, [3, 3, 3, 2, 2]),
        (3, 5, [1, 1, 1, 0, 0]),
        (5, 5, [1] * 5),
        (1, 1, [1]),
    ],
)
def test_s11_averagely(queues, clients, counts):
    found = shares(Averagely(), queues_of(queues), [f"c{number}" for number in range(clients)])
    assert [len(share) for share in found] == counts
    assert [*chain(*found)] == list(range(queues)), "each share is one contiguous run"


THREE = ["192.168.0.1@1", "192.168.0.2@2", "192.168.0.3@3"]


@named(
    ("strategy", "expected"),
    [
        (Averagely(), [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (AveragelyByCircle(), [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (ConsistentHash(), [[0, 2, 5], [6], [1, 3, 4, 7]]),
        (ByConfig(queues_of(2)), [[0, 1]] * 3),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_s12_the_vector_that_java_gave(strategy, expected):
    assert shares(strategy, queues_of(8), THREE) == expected


def test_s12_by_machine_room():
    queues = queues_of(5, "hz@a") + queues_of(4, "sh@b") + queues_of(3, "plain")
    assert shares(ByMachineRoom({"hz"}), queues, ["a", "b"]) == [[0, 1, 4], [2, 3]]


@named(("broker", "here"), [("hz@a", True), ("hz@a@", True), ("hz@", False), ("hz@a@b", False), ("hz", False)])
def test_s12_a_room_is_the_first_of_two_parts(broker, here):
    assert bool(ByMachineRoom({"hz"}).allocate("g", "a", queues_of(1, broker), ["a"])) is here


def test_s12_machine_room_nearby():
    queues = queues_of(2, "bj@c") + queues_of(2, "hz@a") + queues_of(2, "sh@b")
    found = {one: NEARBY.allocate("g", one, queues, ["hz@1", "hz@2", "sh@3"]) for one in ("hz@1", "hz@2", "sh@3")}
    assert {one: [f"{queue.broker} {queue.queue}" for queue in share] for one, share in found.items()} == {
        "hz@1": ["hz@a 0", "bj@c 0"],
        "hz@2": ["hz@a 1", "bj@c 1"],
        "sh@3": ["sh@b 0", "sh@b 1"],
    }
    assert NEARBY.name == "MACHINE_ROOM_NEARBY-AVG"


@named("where", ["queue", "client"])
def test_s12_what_is_in_no_room_is_an_error(where):
    strategy = MachineRoomNearby(
        Averagely(), lambda _: "" if where == "queue" else "r", lambda _: "" if where == "client" else "r"
    )
    with pytest.raises(ValueError, match="in no machine room"):
        strategy.allocate("g", "a", queues_of(1), ["a"])


def test_s12_consistent_hash_moves_only_the_queues_of_who_left():
    queues, everyone = queues_of(64), [f"c{number}" for number in range(5)]
    before = shares(ConsistentHash(), queues, everyone)
    after = shares(ConsistentHash(), queues, everyone[:-1])
    assert all(set(kept) <= set(now) for kept, now in zip(before, after, strict=False))
    assert sorted(chain(*after)) == list(range(64))


def test_s12_consistent_hash_with_nothing_on_the_ring():
    assert ConsistentHash(0).allocate("g", "a", queues_of(3), ["a"]) == []
    with pytest.raises(ValueError, match="-1 virtual nodes"):
        ConsistentHash(-1)


# --- bad arguments ----------------------------------------------------------------------------------------------------


@named("strategy", CHECKED, ids=lambda strategy: strategy.name)
@named(
    ("arguments", "which"),
    [
        (("", queues_of(1), ["a"]), "currentCID"),
        (("", [], []), "currentCID"),
        (("a", [], ["a"]), "mqAll"),
        (("a", [], []), "mqAll"),
        (("a", queues_of(1), []), "cidAll"),
    ],
)
def test_s13_an_empty_argument_is_named(strategy, arguments, which):
    with pytest.raises(ValueError, match=f"^{which} is empty"):
        strategy.allocate("g", *arguments)


@named("strategy", CHECKED, ids=lambda strategy: strategy.name)
def test_s13_who_is_not_in_the_list_gets_nothing_and_one_line(strategy, caplog):
    with caplog.at_level(logging.DEBUG):
        assert strategy.allocate("g", "hz@stranger", queues_of(4, "hz@a"), ["hz@a", "sh@b"]) == []
    [line] = caplog.messages
    assert line.startswith("[BUG]")


# --- what holds always ------------------------------------------------------------------------------------------------

ROOMS = st.sampled_from(["bj", "hz", "sh", "\uffff", "\U0001f600"])
NAMES = st.builds("{}@{}".format, ROOMS, st.text(st.characters(exclude_categories=["Cs"]), max_size=4))
TOPICS = st.builds(
    lambda brokers, topic: in_order(
        queue for name, count in brokers.items() for queue in queues_of(count, name, topic)
    ),
    st.dictionaries(NAMES, st.integers(1, 9), min_size=1, max_size=4),
    st.sampled_from(["orders", "%RETRY%g"]),
)
CLIENTS = st.lists(NAMES, min_size=1, max_size=9, unique=True).map(ids_in_order)


@named("strategy", SHARING, ids=lambda strategy: strategy.name)
@given(TOPICS, CLIENTS)
def test_s14_every_queue_is_in_exactly_one_share(strategy, queues, client_ids):
    found = [queue for one in client_ids for queue in strategy.allocate("g", one, queues, client_ids)]
    assert sorted(found) == sorted(queues)


@given(TOPICS, CLIENTS)
def test_s14_by_machine_room_every_queue_of_the_room_is_in_exactly_one_share(queues, client_ids):
    strategy = ByMachineRoom({"hz"})
    found = [queue for one in client_ids for queue in strategy.allocate("g", one, queues, client_ids)]
    alone = strategy.allocate("g", "x", queues, ["x"])
    assert sorted(found) == sorted(alone)


def test_s15_one_client_id_twice_takes_one_share_and_leaves_the_next_to_nobody():
    listed = ["a", "a", "b", "c", "d"]
    found = dict(zip(listed, shares(Averagely(), queues_of(12), listed), strict=True))
    assert found == {"a": [0, 1, 2], "b": [6, 7], "c": [8, 9], "d": [10, 11]}, "3, 4 and 5 have no reader"


# --- order ------------------------------------------------------------------------------------------------------------

EMOJI, LAST_OF_BMP = (
    "\U0001f600",
    "\uff5e",
)  # to Java the first is smaller: it begins with a surrogate


def test_names_sort_as_java_sorts_them():
    assert sorted([EMOJI, LAST_OF_BMP]) == [LAST_OF_BMP, EMOJI]
    assert ids_in_order([LAST_OF_BMP, EMOJI]) == [EMOJI, LAST_OF_BMP]
    queues = [MessageQueue("t", LAST_OF_BMP, 0), MessageQueue("t", EMOJI, 10), MessageQueue("t", EMOJI, 9)]
    assert in_order(queues) == [queues[2], queues[1], queues[0]]


def test_a_routes_queues_come_in_that_order():
    brokers = [{"brokerName": name, "brokerAddrs": {0: "x:1"}} for name in (LAST_OF_BMP, EMOJI)]
    datas = [{"brokerName": name, "readQueueNums": 1, "writeQueueNums": 1} for name in (LAST_OF_BMP, EMOJI)]
    route = msgspec.convert({"queueDatas": datas, "brokerDatas": brokers}, Route)
    assert [queue.broker for queue in route.to_read("t")] == [EMOJI, LAST_OF_BMP]
    assert [queue.broker for queue in route.to_write("t")] == [EMOJI, LAST_OF_BMP]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5)))
def test_java_order_compares_units(texts):
    def units(text: str) -> list[int]:
        data = text.encode("utf-16-be")
        return [int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2)]

    shuffled = random.Random(1).sample(texts, len(texts))
    assert sorted(shuffled, key=java_order) == sorted(texts, key=units)
