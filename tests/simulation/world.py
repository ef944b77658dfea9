"""A broker and many consumers in one process, on virtual time and a virtual network: what a seed makes of them.

A story: instances of a group join, leave, crash, stall, lose their connections and subscribe again while messages come
in, queues are added and the group is reset; then everything is left alone for a while; then it is looked at. What must
hold is in `broken`. Here it is a group that shares the messages of one topic; others are in the files beside.
"""

import asyncio
import contextlib
import contextvars
import random
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from tests.simulation.virtual import WHO, Network, VirtualClock, VirtualLoop

from penstock.client.consumer.push import PushConsumer
from penstock.client.errors import Refused
from penstock.client.message import Message, Received
from penstock.client.positions import FIRST
from penstock.client.producer import Producer
from penstock.config import BrokerConfig, Config, RocketmqConfig, ServerConfig
from penstock.core.events import Event, PullRefused
from penstock.core.topics import TopicSettings
from penstock.server import Entrance, Server
from penstock.store import keeper
from penstock.wire.rocketmq.codes import RequestCode

T = TypeVar("T")

TOPIC, GROUP = "orders", "billing"
SETTLE_S = 150  # longer than any wait of the clients: a rebalance comes every 20 s, a twin is believed after two
QUIET_S = 60
REQUESTS_PER_S_MAX = 40  # of a group at rest, with every instance: more is a loop that never ends


class _Committer:
    """Everything is durable at once: power cuts are not what is simulated here."""

    def __init__(self, store, loop, config, turn) -> None:
        self._store, self._loop, self._due = store, loop, False

    def wake(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_soon(self._sync)

    def _sync(self) -> None:
        self._due = False
        self._store.synced(self._store.end_position)

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Server(Server):
    """Listens on the virtual network."""

    def __init__(self, config: Config, network: Network) -> None:
        super().__init__(config, VirtualClock())
        self._network, self._port = network, 10_000

    async def _listen(self, entrance: Entrance) -> str:
        self._port += 1
        address = f"127.0.0.1:{self._port}"
        self._network.listen(address, entrance.gateway(self).connect)
        return address


@dataclass
class Instance:
    """One consumer process."""

    name: str
    consumer: PushConsumer
    alive: bool = True
    cut_s: float = float("-inf")  # when it has lost its connections


@dataclass
class World:
    """What has happened so far, and what can happen. Subclasses tell of other groups."""

    topics: ClassVar[tuple[str, ...]] = (TOPIC,)
    events: ClassVar[tuple[str, ...]] = (
        *("join", "join", "leave", "crash", "stall", "cut", "more_queues", "subscribe_again", "reset", "twin"),
        *("wait", "wait", "wait"),
    )

    seed: int
    random: random.Random
    network: Network
    server: _Server
    servers: str
    instances: list[Instance] = field(default_factory=list)
    produced: list[bytes] = field(default_factory=list)
    consumed: list[tuple[bytes, str]] = field(default_factory=list)  # bodies, and the names of who did
    consumed_s: list[float] = field(default_factory=list)  # when
    refused: list[float] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    count: int = 0
    operator: Producer = field(init=False)

    def tell(self, what: str) -> None:
        self.story.append(f"{asyncio.get_event_loop().time():8.2f} s  {what}")

    @property
    def alive(self) -> list[Instance]:
        return [instance for instance in self.instances if instance.alive]

    def heard(self, event: Event) -> None:
        if isinstance(event, PullRefused):
            self.refused.append(asyncio.get_event_loop().time())

    # --- what can happen ----------------------------------------------------------------------------------------------

    async def join(self, client_id: str = "", **more: object) -> PushConsumer:
        self.count += 1
        name = f"c{self.count}"
        client_id = client_id or f"127.0.0.1@{name}"

        async def handle(message: Received) -> None:
            await asyncio.sleep(self.random.choice((0, 0, 0.01, 0.3, 2)))
            self.consumed.append((message.body, name))
            self.consumed_s.append(asyncio.get_event_loop().time())

        options = {
            "start": FIRST,
            "clock": VirtualClock(),
            "dial": self.network.dialler(name),
            **self.options(),
            **more,
        }
        consumer = PushConsumer(self.servers, GROUP, handle, client_id=client_id, **options)
        self.instances.append(Instance(name, consumer))
        self.tell(f"{name} joins")
        context = contextvars.copy_context()
        context.run(WHO.set, name)
        await asyncio.get_event_loop().create_task(consumer.start(), context=context)
        return consumer

    def options(self) -> dict[str, object]:
        """What an instance is made with."""
        return {"topics": dict.fromkeys(self.topics, "*")}

    async def twin(self) -> None:
        """One more with the ClientID of another: they must find out, and part."""
        if self.alive:
            await self.join(self.random.choice(self.alive).consumer.instance.client_id)

    async def leave(self) -> None:
        if len(self.alive) > 1:
            gone = self.random.choice(self.alive)
            gone.alive = False
            self.tell(f"{gone.name} leaves")
            await gone.consumer.close()

    async def crash(self) -> None:
        if len(self.alive) > 1:
            self.end(self.random.choice(self.alive))

    def end(self, gone: Instance) -> None:
        """Where it stands."""
        gone.alive = False
        self.tell(f"{gone.name} crashes")
        self.network.crash(gone.name)
        loop = asyncio.get_event_loop()
        assert isinstance(loop, VirtualLoop)
        loop.kill(gone.name)

    async def stall(self) -> None:
        if self.alive:
            slow = self.random.choice(self.alive)
            for_s = self.random.choice((0.5, 2, 10, 40))
            self.tell(f"{slow.name} stalls for {for_s} s")
            self.network.stall(slow.name)
            await asyncio.sleep(for_s)
            self.network.go_on(slow.name)

    async def cut(self) -> None:
        if self.alive:
            one = self.random.choice(self.alive)
            self.tell(f"{one.name} loses its connections")
            one.cut_s = asyncio.get_event_loop().time()
            for pipe in self.network.pipes.get(one.name, []):
                pipe.close()

    async def more_queues(self) -> None:
        topic = self.random.choice(self.topics)
        queues = min(self.queues_of(topic) + self.random.choice((1, 2)), 12)
        self.tell(f"{topic} has {queues} queues")
        await self.server.broker.topics.alter(topic, TopicSettings(read_queues=queues, write_queues=queues))

    async def subscribe_again(self) -> None:
        if self.alive:
            one = self.random.choice(self.alive)
            self.tell(f"{one.name} subscribes again")
            await one.consumer.subscribe(TOPIC, "*")

    async def reset(self) -> None:
        """Back to an earlier time, never forward: nothing may be left out."""
        back_s = self.random.choice((1, 20, 100))
        await self.reset_to(VirtualClock().now_ms() - back_s * 1_000, f"{back_s} s ago")

    async def reset_to(self, at_ms: int, when: str) -> None:
        self.tell(f"the group is reset to {when}")
        asked = {"topic": TOPIC, "group": GROUP, "timestamp": str(at_ms), "isForce": "false"}
        cluster = self.operator.instance.cluster
        with contextlib.suppress(Refused):  # a group without any offset yet
            await cluster.get(self.server.addresses["broker"], RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)

    async def wait(self) -> None:
        await asyncio.sleep(self.random.choice((0.01, 0.3, 1, 5, 21, 35)))

    # --- producing ----------------------------------------------------------------------------------------------------

    async def produce(self) -> None:
        """One more message."""
        body = b"%d" % len(self.produced)
        await self.operator.send(Message(TOPIC, body))
        self.produced.append(body)

    # --- what must hold -----------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Nothing happens for long enough."""
        await asyncio.sleep(SETTLE_S)

    async def broken(self) -> list[str]:
        """What does not hold, though everything has been left alone for long."""
        found = [*self.wrong_owners(), *self.missing(), *self.refusals()]
        return [*found, *await self.unrest()]

    def wrong_owners(self) -> list[str]:
        owners: dict[tuple[str, int], list[str]] = {
            (topic, queue): [] for topic in self.topics for queue in range(self.queues_of(topic))
        }
        for instance in self.alive:
            for queue in instance.consumer.owned:
                if queue.topic in self.topics:
                    owners.setdefault((queue.topic, queue.queue), []).append(instance.name)
        return [f"queue {queue} has owners {names}" for queue, names in owners.items() if len(names) != 1]

    def queues_of(self, topic: str) -> int:
        return self.server.broker.topics.get(topic).read_queues

    def missing(self) -> list[str]:
        missing = sorted(set(self.produced) - {body for body, _ in self.consumed})
        if not missing:
            return []
        return [f"{len(missing)} of {len(self.produced)} messages were never consumed: {missing[:5]}"]

    def refusals(self) -> list[str]:
        now_s = asyncio.get_event_loop().time()
        late = [at_s for at_s in self.refused if at_s > now_s - QUIET_S]
        return [f"{len(late)} pulls were refused with code 25 in the last {QUIET_S} s"] if late else []

    async def unrest(self) -> list[str]:
        before = self.network.carried
        await asyncio.sleep(QUIET_S)
        per_s = (self.network.carried - before) / QUIET_S
        if per_s <= REQUESTS_PER_S_MAX * max(1, len(self.alive)):
            return []
        return [f"{per_s:.0f} writes per second though nothing happens"]


@contextlib.asynccontextmanager
async def world(seed: int, queues: int | None = None, kind: type[World] = World):
    drawn = random.Random(seed)
    network = Network(drawn)
    with tempfile.TemporaryDirectory() as folder:
        config = Config(
            server=ServerConfig(data=folder), broker=BrokerConfig(), rocketmq=RocketmqConfig(idle_timeout_ms=600_000)
        )
        server = _Server(config, network)
        await server.start()
        made = kind(seed, drawn, network, server, server.addresses["namesrv"])
        made.operator = Producer(made.servers, "shop", clock=VirtualClock(), dial=network.dialler("producer"))
        server.broker.bus.listen(made.heard)
        for topic in kind.topics:
            chosen = queues or drawn.choice((1, 2, 4, 7, 8))
            await server.broker.topics.create(topic, TopicSettings(write_queues=chosen))
        await made.operator.start()
        try:
            yield made
        finally:
            await made.operator.close()
            for instance in made.alive:
                await instance.consumer.close()
            await server.stop()


async def tell_story(made: World, steps: int = 12) -> None:
    """Let things happen, then let them settle."""
    stop = asyncio.Event()
    producing = asyncio.ensure_future(_produce(made, stop))
    await made.join()
    for _ in range(steps):
        await getattr(made, made.random.choice(made.events))()
    stop.set()
    await producing
    await made.settle()


async def _produce(made: World, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await made.produce()
        await asyncio.sleep(made.random.choice((0.01, 0.2, 1.0)))


def run(seed: int, kind: type[World] = World) -> tuple[list[str], World]:
    """One story; what is broken at its end."""

    async def story(made: World) -> tuple[list[str], World]:
        await tell_story(made)
        return await made.broken(), made

    return played(story, seed, kind=kind)


def played(
    story: Callable[[World], Awaitable[T]], seed: int = 0, queues: int | None = None, kind: type[World] = World
) -> T:
    """A story of one's own, on the world of a seed."""

    async def told() -> T:
        async with world(seed, queues, kind) as made:
            return await story(made)

    random.seed(seed)  # what the client draws by itself
    original = keeper.Committer
    keeper.Committer = _Committer  # type: ignore[misc,assignment]
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(told())
    finally:
        keeper.Committer = original  # type: ignore[misc]
