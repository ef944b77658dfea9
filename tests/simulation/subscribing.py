"""A group whose instances subscribe to two topics, differently and changing: nothing is promised while they differ.

In the end all subscribe to the same. Then every queue has one owner again; what every filter wanted all the time was
consumed; and of what is sent then, what is wanted comes and what is not does not.
"""

import asyncio
from dataclasses import dataclass, field
from typing import ClassVar

from tests.simulation.world import TOPIC, World

from penstock.client.message import Message

OTHER = "refunds"
ALWAYS, SOMETIMES = "a", "b"  # tags
EXPRESSIONS = ("*", "a", "a || b", "a || c")
LATE = 12
LATE_S = 40


@dataclass
class Subscribing(World):
    topics: ClassVar[tuple[str, ...]] = (TOPIC, OTHER)
    events: ClassVar[tuple[str, ...]] = (
        *("join", "join", "leave", "crash", "stall", "cut", "more_queues"),
        *("subscribe", "subscribe", "subscribe", "unsubscribe", "unsubscribe", "wait", "wait"),
    )

    wanted: list[bytes] = field(default_factory=list)  # by every filter there was
    unwanted: list[bytes] = field(default_factory=list)  # by the last one

    def options(self) -> dict[str, object]:
        chosen = self.random.sample(self.topics, self.random.choice((1, 2)))
        return {"topics": {topic: self.random.choice(EXPRESSIONS) for topic in chosen}}

    # --- what can happen ----------------------------------------------------------------------------------------------

    async def subscribe(self) -> None:
        if self.alive:
            one, topic = self.random.choice(self.alive), self.random.choice(self.topics)
            expression = self.random.choice(EXPRESSIONS)
            self.tell(f"{one.name} subscribes to {topic} with {expression}")
            await one.consumer.subscribe(topic, expression)

    async def unsubscribe(self) -> None:
        if self.alive:
            one, topic = self.random.choice(self.alive), self.random.choice(self.topics)
            self.tell(f"{one.name} unsubscribes from {topic}")
            await one.consumer.unsubscribe(topic)

    async def produce(self) -> None:
        await self.send(self.random.choice((ALWAYS, SOMETIMES)))

    async def send(self, tag: str) -> bytes:
        body = b"%d" % len(self.produced)
        await self.operator.send(Message(self.random.choice(self.topics), body, tags=tag))
        self.produced.append(body)
        if tag == ALWAYS:
            self.wanted.append(body)
        return body

    async def settle(self) -> None:
        """All subscribe to the same, in any order, one after the other."""
        final = self.random.choice(EXPRESSIONS)
        for one in self.random.sample(self.alive, len(self.alive)):
            for topic in self.topics:
                self.tell(f"{one.name} subscribes to {topic} with {final}, as all do in the end")
                await one.consumer.subscribe(topic, final)
        await super().settle()
        for number in range(LATE):
            tag = (ALWAYS, SOMETIMES)[number % 2]
            body = await self.send(tag)
            if tag == SOMETIMES:
                (self.wanted if final in ("*", "a || b") else self.unwanted).append(body)
        await asyncio.sleep(LATE_S)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def missing(self) -> list[str]:
        has = {body for body, _ in self.consumed}
        missing, too_many = sorted(set(self.wanted) - has), sorted(set(self.unwanted) & has)
        broken = []
        if missing:
            broken.append(f"{len(missing)} of {len(self.wanted)} messages were never consumed: {missing[:5]}")
        if too_many:
            broken.append(f"{too_many[:5]} were consumed, though nobody wanted them")
        return broken
