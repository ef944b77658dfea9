"""A broker process that makes its own load and reports each acknowledgement over its standard output.

    python -m penstock.testing.load --data DIR --first 0 --seed 7

For crash tests and the demo: the one who started it keeps the journal of what was acknowledged, kills it at any moment,
and looks whether all of that is there. A line is written after the acknowledgement, in one write, so that a kill cannot
tear a line that was acknowledged earlier:

    ready 127.0.0.1:40123           the broker is up; its HTTP address
    ack ORDERS 2 17 1041            topic, queue, offset, and the number that the message carries
    group 1050                      a committed group: its key
"""

import argparse
import asyncio
import os
import random
import struct
from collections.abc import Sequence

import msgspec

from penstock.clock import SystemClock
from penstock.config import Config, ServerConfig, StoreConfig
from penstock.core.topics import Topic, TopicSettings
from penstock.model import Durability, Entry
from penstock.server import Server
from penstock.wire.plain import Plain, message_in, plain, plain_run

TOPICS = {"orders": Durability.SYNC, "clicks": Durability.ASYNC}
QUEUES = 4
IN_FLIGHT_MAX = 8

_NUMBER = struct.Struct("<Q")


class Args(msgspec.Struct):
    data: str
    first: int
    seed: int
    segment_bytes: int


def numbered(queue: int, number: int, choose: random.Random, group: str = "") -> Plain:
    """A message that carries its number, and the group it must come with."""
    body = _NUMBER.pack(number) + bytes([number % 251]) * choose.choice((10, 100, 1_000, 5_000))
    return plain(queue, body, properties={"group": group} if group else None)


def number_of(payload: memoryview) -> tuple[int, str]:
    """The number in a message and its group; raises when the message is not as it was made."""
    message = message_in(payload)
    (number,) = _NUMBER.unpack_from(message.body)
    if message.body[_NUMBER.size :].strip(bytes([number % 251])):
        raise ValueError(f"message {number} has another body than it was sent with")
    return number, message.properties.get("group", "")


class Load:
    """Publishes without end: single messages, runs and committed groups, several at a time."""

    def __init__(self, server: Server, args: Args) -> None:
        self._broker, self._choose = server.broker, random.Random(args.seed)
        self._number = args.first
        self._free = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._topics: list[Topic] = []

    async def run(self) -> None:
        for name, durability in TOPICS.items():
            found = self._broker.topics.find(name)
            settings = TopicSettings(write_queues=QUEUES, durability=durability)
            self._topics.append(found or await self._broker.topics.create(name, settings))
        while True:
            await self._free.acquire()
            if self._choose.random() < 0.1:
                self._commit_group()
            else:
                self._publish()
            await asyncio.sleep(0)

    def _some(self, group: bool = False) -> list[Plain]:
        """Numbered messages for random queues of one topic."""
        topic = self._choose.choice(self._topics)
        first, count = self._number, self._choose.choice((1, 1, 4, 30))
        self._number += count
        pick = self._choose
        name = f"{first}-{first + count - 1}" if group else ""
        return [numbered(pick.choice(topic.queues), first + index, pick, name) for index in range(count)]

    def _publish(self) -> None:
        messages = self._some()
        entries: list[Entry] = list(messages)
        if self._choose.random() < 0.3:
            for message in messages:
                message.queue = messages[0].queue
            entries = [plain_run(messages)]
        self._broker.publisher.publish(entries, lambda error: self._acknowledged(entries, messages, error))

    def _acknowledged(self, entries: Sequence[Entry], messages: Sequence[Plain], error: Exception | None) -> None:
        self._free.release()
        if error is not None:
            raise SystemExit(f"refused: {error}")
        if entries[0].run:  # its messages follow one another
            for index, message in enumerate(messages):
                message.offset = entries[0].offset + index
        say("".join(self._line(message) for message in messages))

    def _line(self, message: Plain) -> str:
        topic, queue = self._broker.topics.owner(message.queue)
        (number,) = _NUMBER.unpack_from(message.body)
        return f"ack {topic.name} {queue} {message.offset} {number}\n"

    def _commit_group(self) -> None:
        key = str(self._number)
        messages = self._some(group=True)
        half = len(messages) // 2
        self._broker.staging.stage(f"{key}/a", messages[:half])
        self._broker.staging.stage(f"{key}/b", messages[half:])

        def committed(error: Exception | None, published: bool) -> None:
            self._acknowledged(messages, messages, error)
            say(f"group {key}\n")

        self._broker.staging.commit(key, [f"{key}/a", f"{key}/b"], committed)


def say(lines: str) -> None:
    os.write(1, lines.encode())


async def main(args: Args) -> None:
    store = StoreConfig(segment_bytes=args.segment_bytes, checkpoint_bytes=args.segment_bytes, clean_interval_ms=200)
    ports = ServerConfig(data=args.data, namesrv_port=0, broker_port=0, pulsar_port=0, http_port=0)
    server = Server(Config(server=ports, store=store), SystemClock())
    await server.start()
    say(f"ready {server.addresses['http']}\n")
    await Load(server, args).run()


def parsed() -> Args:
    parser = argparse.ArgumentParser(description="A broker that makes its own load, to be killed.")
    parser.add_argument("--data", required=True)
    parser.add_argument("--first", type=int, default=0, help="the number of the first message")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--segment-bytes", type=int, default=4 << 20)
    return msgspec.convert(vars(parser.parse_args()), Args)


if __name__ == "__main__":
    asyncio.run(main(parsed()))
