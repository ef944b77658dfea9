"""Pulsar's real clients as tests see them: one language for all, spoken with a driver of each over lines of JSON.

    client = drivers.open()                                          # each test has clients of its own
    producer = client.producer(topic, batch=True)
    consumer = client.subscribe(topic, "billing", type="Shared")
    producer.send("a", "b")
    first, second = consumer.receive(2)
    consumer.ack(first)

A driver is a process that lives as long as the tests do, so that a JVM is started once. It answers commands in turn:
{"do": "receive", "on": 3, "count": 2} with {"ok": [...]}, or with {"error": ..., "why": ...}, which is raised as
`Told`. What a test opens has a number, and so has every message that was received. What a client does not have raises
`Told` with `Unsupported` in it; which client has what is said where tests are chosen.
"""

import contextlib
import itertools
import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAIT_MS = 15_000  # for what must come
A_MOMENT_MS = 400  # in which nothing comes
ANSWER_S = 60
Line = dict[str, Any]


class Told(Exception):
    """What a client was told, or says, instead of doing it."""

    def __init__(self, error: str, why: str, status: int = 0) -> None:
        super().__init__(f"{error}: {why}")
        self.error, self.why, self.status = error, why, status  # the status is HTTP's


class Driver:
    """A client's process."""

    def __init__(self, name: str, command: list[str], home: Path) -> None:
        self.name, self.kind = name, name.partition("-")[0]
        self._numbers = itertools.count(1)
        self._command, self._home = command, home
        self._log = (home / f"{name}.log").open("w+", encoding="utf-8")
        self._start()

    def _start(self) -> None:
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            self._command, cwd=self._home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            bufsize=1,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True)
        self._reader.start()

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: "queue.SimpleQueue[str | None]") -> None:
        for line in process.stdout or ():
            lines.put(line)
        lines.put(None)

    def again(self) -> None:
        """Before each test: one that a client's crash has ended is not all that come behind it."""
        if self._process.poll() is not None:
            self._end()
            self._start()

    def ask(self, do: str, **fields: object) -> Any:
        assert self._process.stdin
        said = {name: value for name, value in fields.items() if value is not None}
        self._process.stdin.write(json.dumps({"do": do, **said}) + "\n")
        self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=ANSWER_S)
        except queue.Empty:
            raise AssertionError(f"{self.name} did not answer {do} {said} within {ANSWER_S} s: {self.log()}") from None
        if line is None:
            raise AssertionError(f"{self.name} ended with {self._process.wait(10)} at {do} {said}: {self.log()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Told(answer["error"], answer["why"], answer.get("status", 0))
        return answer["ok"]

    def new(self, on: int, do: str, **fields: object) -> int:
        """Opens something, and gives its number."""
        number = next(self._numbers)
        self.ask(do, on=on, **{"as": number}, **fields)
        return number

    def log(self) -> str:
        self._log.flush()
        self._log.seek(0)
        return self._log.read()[-6000:]

    def stop(self) -> None:
        self._end()
        self._log.close()

    def _end(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()


class Thing:
    """Something that is open in a driver."""

    def __init__(self, driver: Driver, number: int) -> None:
        self._driver, self._number = driver, number
        self._is_open = True

    def ask(self, do: str, **fields: object) -> Any:
        return self._driver.ask(do, on=self._number, **fields)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self.ask("close")


class Client(Thing):
    def __init__(self, driver: Driver, url: str, **more: object) -> None:
        super().__init__(driver, driver.new(0, "open", url=url, **more))
        self.kind = driver.kind

    def producer(self, topic: str, **more: object) -> "Producer":
        return Producer(self._driver, self._driver.new(self._number, "producer", topic=topic, **more))

    def subscribe(self, topic: str | list[str] | None, subscription: str, **more: object) -> "Consumer":
        """At the beginning, unless something else is said; a pattern has no topic."""
        topics = [topic] if isinstance(topic, str) else topic
        fields = {"topics": topics, "subscription": subscription, "from": "Earliest"} | more
        return Consumer(self._driver, self._driver.new(self._number, "subscribe", **fields))

    def reader(self, topic: str, start: "str | Message" = "earliest", **more: object) -> "Reader":
        number = self._driver.new(self._number, "reader", topic=topic, **position(start), **more)
        return Reader(self._driver, number)

    def table(self, topic: str) -> "Table":
        return Table(self._driver, self._driver.new(self._number, "table", topic=topic))


class Producer(Thing):
    def send(self, *bodies: str, **more: object) -> list[Line]:
        """The same keys and properties for all."""
        return self.send_all([{"body": body, **more} for body in bodies])

    def send_all(self, messages: list[Line]) -> list[Line]:
        """Their ids."""
        return self.ask("send", messages=messages)

    def there(self) -> bool:
        """Of one that is made later: whether it is there by now."""
        return bool(self.ask("there"))


class Message:
    """One that was received. `told` has everything that its driver says of it."""

    def __init__(self, told: Line) -> None:
        self.told = told
        self.number: int = told["number"]
        self.body: str = told["body"]
        self.redelivered: int = told["redelivered"]

    @property
    def row(self) -> tuple[int, int]:
        return self.told["entry"], self.told["batch"]

    def __repr__(self) -> str:
        return f"<{self.body} {self.row}>"


class Consumer(Thing):
    def receive(self, count: int = 1, wait_ms: int = WAIT_MS) -> list[Message]:
        """So many: all have to come."""
        got = self.some(count, wait_ms)
        assert len(got) == count, f"{len(got)} of {count} came: {got}"
        return got

    def some(self, count: int = 1, wait_ms: int = A_MOMENT_MS) -> list[Message]:
        """Those that come, up to so many, before nothing comes for a while."""
        return [Message(told) for told in self.ask("receive", count=count, wait_ms=wait_ms)]

    def bodies(self, count: int) -> list[str]:
        """Received and acknowledged."""
        got = self.receive(count)
        self.ack(*got)
        return [message.body for message in got]

    def nothing(self) -> bool:
        return self.some() == []

    def ack(self, *messages: Message) -> None:
        self.ask("ack", numbers=[message.number for message in messages])

    def ack_until(self, message: Message) -> None:
        self.ask("ack_until", number=message.number)

    def nack(self, *messages: Message) -> None:
        self.ask("nack", numbers=[message.number for message in messages])

    def later(self, message: Message, delay_ms: int) -> None:
        self.ask("later", number=message.number, delay_ms=delay_ms)

    def redeliver(self) -> None:
        self.ask("redeliver")

    def seek(self, to: "str | int | Message") -> None:
        """A message, a time in ms, earliest or latest."""
        self.ask("seek", **position(to))

    def last(self) -> list[Line]:
        return self.ask("last")

    def unsubscribe(self) -> None:
        self.ask("unsubscribe")

    def ended(self) -> bool:
        """Whether it has heard that its topic has come to an end."""
        return bool(self.ask("ended"))

    def active(self) -> list[tuple[int, bool]]:
        """What it has heard: of which partition, whether it became active."""
        return [(partition, active) for partition, active in self.ask("active")]


class Reader(Thing):
    def read(self, count: int) -> list[Message]:
        got = [Message(told) for told in self.ask("read", count=count, wait_ms=WAIT_MS)]
        assert len(got) == count, f"{len(got)} of {count} came: {got}"
        return got

    def all(self) -> list[str]:
        """The bodies of all that are there."""
        found = []
        while self.available():
            found += [message.body for message in self.read(1)]
        return found

    def available(self) -> bool:
        return bool(self.ask("available"))

    def seek(self, to: "str | int | Message") -> None:
        self.ask("reader_seek", **position(to))


class Table(Thing):
    """The last value of each key."""

    def entries(self) -> dict[str, str]:
        return self.ask("entries")


class Admin:
    """Java's admin client: admin("topics.getStats", topic) calls that method, whichever there is."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def __call__(self, method: str, *args: object) -> Any:
        part, _, name = method.partition(".")
        return self._driver.ask("call", on=part, name=name, args=args)


def position(of: "str | int | Message") -> Line:
    if isinstance(of, Message):
        return {"number": of.number}
    return {"to": of} if isinstance(of, str) else {"time_ms": of}


def until(happens: Callable[[], object], within_s: float = WAIT_MS / 1000) -> None:
    """Wait for what a driver hears in between."""
    end = time.monotonic() + within_s
    while not happens():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
