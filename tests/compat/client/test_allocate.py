"""The strategies beside the Java classes: ten thousand random questions, and no difference in the answers."""

import random

import pytest
from tests.compat.conftest import unavailable
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.clients import JAVA_4, JAVA_5, Process

from penstock.client.allocate import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    Strategy,
)
from penstock.client.routes import MessageQueue, ids_in_order, in_order

QUESTIONS = 10_000
ITEM, PART = "\x1f", "\x1e"
ROOMS = ("", "bj", "hz", "sh", "\uff5e", "\U0001f600")  # to Java the last is smaller than the one before
NAMES = ("broker-a", "broker-b", "10.0.0.1@7", "a@", "标签", "\uff5e", "\U0001f600x", "Z", "a", "")
SIMPLE = ("AVG", "AVG_BY_CIRCLE", "CONFIG", "MACHINE_ROOM", "CONSISTENT_HASH")


class Question:
    """What is asked of both sides."""

    def __init__(self, chance: random.Random) -> None:
        self.name = chance.choice([*SIMPLE, *(f"MACHINE_ROOM_NEARBY-{name}" for name in SIMPLE)])
        self.sorted = chance.random() < 0.8
        self.queues = [] if chance.random() < 0.02 else some_queues(chance)
        self.client_ids = [] if chance.random() < 0.02 else some_ids(chance)
        self.client_id = chance.choice([*(self.client_ids * 3), *some_ids(chance), ""])
        self.setting = self._setting(chance)

    def _setting(self, chance: random.Random) -> str:
        kind = self.name.rpartition("-")[2]
        if kind == "CONFIG":
            return packed(some_queues(chance))
        if kind == "MACHINE_ROOM":
            return ITEM.join(chance.sample(ROOMS[1:], chance.randrange(1, 4)))
        return str(chance.choice([0, 1, 5, 10, 10, 10]))

    def line(self) -> str:
        ordered = str(self.sorted).lower()
        told = (self.name, ordered, self.setting, self.client_id, packed(self.queues), ITEM.join(self.client_ids))
        return "\t".join(told)

    def answer(self) -> str:
        """Ours: the share, or which argument is wrong."""
        queues = in_order(self.queues) if self.sorted else self.queues
        client_ids = ids_in_order(self.client_ids) if self.sorted else self.client_ids
        try:
            return packed(strategy(self.name, self.setting).allocate("g", self.client_id, queues, client_ids))
        except ValueError as error:
            return "in no machine room" if "in no machine room" in str(error) else f"{str(error).split()[0]} is empty"


def some_queues(chance: random.Random) -> list[MessageQueue]:
    topic = chance.choice(["orders", "%RETRY%g", "标签"])
    brokers = {some_name(chance): chance.randrange(1, 9) for _ in range(chance.randrange(1, 5))}
    found = [MessageQueue(topic, broker, number) for broker, count in brokers.items() for number in range(count)]
    return chance.sample(found, len(found))


def some_ids(chance: random.Random) -> list[str]:
    """Some of them twice: as when two instances share one."""
    found = [f"{some_name(chance)}#{chance.randrange(20)}" for _ in range(chance.randrange(1, 9))]
    return found + chance.choices(found, k=chance.choice([0, 0, 0, 1, 3]))


def some_name(chance: random.Random) -> str:
    return f"{chance.choice(ROOMS)}@{chance.choice(NAMES)}" if chance.random() < 0.8 else f"n{chance.choice(NAMES)}"


def packed(queues: list[MessageQueue]) -> str:
    return ITEM.join(PART.join((queue.topic, queue.broker, str(queue.queue))) for queue in queues)


def unpacked(text: str) -> list[MessageQueue]:
    found = (item.split(PART) for item in text.split(ITEM))
    return [MessageQueue(topic, broker, int(number)) for topic, broker, number in found]


def strategy(name: str, setting: str) -> Strategy:
    outer, _, inner = name.rpartition("-")
    if outer:
        return MachineRoomNearby(strategy(inner, setting), lambda queue: room_of(queue.broker), room_of)
    made = {
        "AVG": Averagely,
        "AVG_BY_CIRCLE": AveragelyByCircle,
        "CONFIG": lambda: ByConfig(unpacked(setting)),
        "MACHINE_ROOM": lambda: ByMachineRoom(setting.split(ITEM)),
        "CONSISTENT_HASH": lambda: ConsistentHash(int(setting)),
    }
    return made[name]()


def room_of(name: str) -> str:
    return name.partition("@")[0]


def javas(line: dict[str, object]) -> str:
    """Java's answer in the words of ours."""
    if "share" in line:
        return str(line["share"])
    error = str(line["error"])
    return "in no machine room" if error.startswith("Machine room is null") else f"{error.split()[0]} is empty"


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5], ids=lambda client: client.name)
def test_the_strategies_give_what_the_java_classes_give(client, tmp_path):
    try:
        command = toolchain.DRIVERS[client.driver]()
    except toolchain.Missing as reason:
        unavailable(client.name, reason)
    chance = random.Random(7)
    questions = [Question(chance) for _ in range(QUESTIONS)]
    with Process([*command, "allocate"], tmp_path) as java:
        for question in questions:
            java.tell(question.line())
        answers = [javas(line) for line in java.take(QUESTIONS)]
    ours = [question.answer() for question in questions]
    different = [(q.line(), a, b) for q, a, b in zip(questions, ours, answers, strict=True) if a != b]
    assert not different, different[:3]
    assert {"currentCID is empty", "mqAll is empty", "cidAll is empty", "in no machine room", ""} <= set(ours)
