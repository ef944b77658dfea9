"""A group that broadcasts: every instance gets every message, and keeps its own offsets in a file.

An instance that left or crashed may come back under its ClientID, and then goes on with its file. The disk under the
files is virtual, and refuses a write now and then. After a reset to an earlier time every instance that could hear of
it consumes again what was stored since then.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from tests.simulation.virtual import VirtualClock
from tests.simulation.world import Instance, World

from penstock.client.consumer import push
from penstock.client.consumer.push import PushConsumer
from penstock.client.routes import MessageQueue

REFUSES = 0.1  # of the writes
MOMENT_S = 1
HEARTBEAT_S = 31


class Reset(NamedTuple):
    """What was stored in [since_s, at_s) has to come again at those who hear of it. Whoever was so far behind that it
    goes forward for them misses what is in between: that is what was asked for.
    """

    since_s: float
    at_s: float
    hear: list[str]  # names
    may_hear: list[str]  # ClientIDs


class Disk:
    """The files of all instances, by ClientID. A write is taken whole or not at all."""

    def __init__(self, made: World) -> None:
        self._made, self._files = made, dict[str, dict[MessageQueue, int]]()

    def file(self, folder: object, client_id: str, group: str) -> "DiskFile":
        return DiskFile(self, client_id)

    def read(self, client_id: str) -> dict[MessageQueue, int]:
        return dict(self._files.get(client_id, {}))

    def write(self, client_id: str, offsets: Mapping[MessageQueue, int]) -> None:
        if self._made.random.random() < REFUSES:
            raise OSError("the disk is full")
        self._files[client_id] = {**self._files.get(client_id, {}), **offsets}


class DiskFile(NamedTuple):
    """As `offsets_file.OffsetsFile`."""

    disk: Disk
    client_id: str

    def load(self) -> dict[MessageQueue, int]:
        return self.disk.read(self.client_id)

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.disk.write(self.client_id, offsets)


@dataclass
class Broadcasting(World):
    events: ClassVar[tuple[str, ...]] = (
        *("join", "join", "leave", "crash", "come_back", "restart", "restart", "stall", "cut", "more_queues"),
        *("subscribe_again", "reset", "reset", "wait", "wait", "wait"),
    )

    produced_s: list[float] = field(default_factory=list)
    resets: list[Reset] = field(default_factory=list)
    disk: Disk = field(init=False)

    def __post_init__(self) -> None:
        self.disk = Disk(self)

    def options(self) -> dict[str, object]:
        return super().options() | {"broadcast": True}

    # --- what can happen ----------------------------------------------------------------------------------------------

    async def join(self, client_id: str = "", **more: object) -> PushConsumer:
        with contextlib.ExitStack() as stack:
            original = push.OffsetsFile
            stack.callback(setattr, push, "OffsetsFile", original)
            push.OffsetsFile = self.disk.file  # type: ignore[misc,assignment]
            return await super().join(client_id, **more)

    async def come_back(self) -> None:
        """One that is gone, under its ClientID: it goes on with its file."""
        here = {instance.consumer.instance.client_id for instance in self.alive}
        gone = [one for one in self.instances if not one.alive and one.consumer.instance.client_id not in here]
        if gone:
            await self.join(self.random.choice(gone).consumer.instance.client_id)

    async def restart(self) -> None:
        """A crash, and it comes back at once."""
        if self.alive:
            one = self.random.choice(self.alive)
            self.end(one)
            await asyncio.sleep(self.random.choice((0.1, 3)))
            await self.join(one.consumer.instance.client_id)

    async def produce(self) -> None:
        self.produced_s.append(asyncio.get_event_loop().time())
        await super().produce()

    async def reset(self) -> None:
        loop = asyncio.get_event_loop()
        hear = [one.name for one in self.alive if self.hears(one)]
        may_hear = [one.consumer.instance.client_id for one in self.alive]
        at_s, back_s = loop.time(), self.random.choice((20, 100))
        await self.reset_to(VirtualClock().now_ms() - back_s * 1_000, f"{back_s} s ago")
        self.resets.append(Reset(at_s - back_s, at_s, hear, may_hear))
        await asyncio.sleep(5)  # the order is on its way: what happens to a connection now would lose it

    def hears(self, one: Instance) -> bool:
        """Whether the broker can tell it something: its connections are open, and a heartbeat has gone over them."""
        pipes = [pipe for pipe in self.network.pipes.get(one.name, []) if not pipe.is_closing()]
        is_known = asyncio.get_event_loop().time() > one.cut_s + HEARTBEAT_S
        return is_known and bool(pipes) and all(pipe.stalled is None and not pipe.other.is_closing() for pipe in pipes)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def wrong_owners(self) -> list[str]:
        """Everybody has every queue."""
        queues = {(topic, queue) for topic in self.topics for queue in range(self.queues_of(topic))}
        owned = {one.name: {(queue.topic, queue.queue) for queue in one.consumer.owned} for one in self.alive}
        return [f"{name} has not the queues {sorted(queues ^ has)}" for name, has in owned.items() if has != queues]

    def missing(self) -> list[str]:
        broken = []
        for one in self.alive:
            client_id = one.consumer.instance.client_id
            lives = {other.name for other in self.instances if other.consumer.instance.client_id == client_id}
            has = {body for body, name in self.consumed if name in lives}
            since_s = max((reset.since_s for reset in self.resets if client_id in reset.may_hear), default=-1.0)
            if missing := sorted(self._stored_between(since_s, float("inf")) - has):
                broken.append(f"{len(missing)} messages were never consumed by {client_id}: {missing[:5]}")
        return [*broken, *(line for reset in self.resets for line in self._not_again(reset))]

    def _not_again(self, reset: Reset) -> list[str]:
        since_s = max(other.since_s for other in self.resets if other.at_s >= reset.at_s)  # the last word counts
        due, broken = self._stored_between(since_s, reset.at_s), []
        for one in self.alive:
            missing = sorted(due - self._consumed_after(reset.at_s, one.name))
            if one.name in reset.hear and missing:
                told = f"did not come again at {one.name} after the reset at {reset.at_s:.2f} s"
                broken.append(f"{len(missing)} messages {told}: {missing[:5]}")
        return broken

    def _consumed_after(self, at_s: float, name: str) -> set[bytes]:
        pairs = zip(self.consumed, self.consumed_s, strict=True)
        return {body for (body, who), when_s in pairs if who == name and when_s > at_s}

    def _stored_between(self, since_s: float, until_s: float) -> set[bytes]:
        """Well between: a message takes a moment."""
        pairs = zip(self.produced, self.produced_s, strict=True)
        return {body for body, at_s in pairs if since_s + MOMENT_S <= at_s < until_s - MOMENT_S}
