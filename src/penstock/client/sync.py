"""For scripts: a producer and a consumer whose methods wait, without a loop of one's own.

    with Producer("127.0.0.1:9876", "scripts") as producer:
        producer.send(Message("orders", b"..."))

    with Consumer("127.0.0.1:9876", "scripts", {"orders": "*"}) as consumer:
        for message in consumer:
            ...

    with TransactionProducer("127.0.0.1:9876", "booking", check) as producer:
        producer.send(Message("bookings", b"..."), book)

Each is the asyncio one, in a loop in a thread of its own; whatever that one takes, these take. Heartbeats and pulls go
on while the script does something else. Any thread may call them.
"""

import asyncio
import itertools
import queue
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self, TypeVar

from penstock.client import producer as asynchronous
from penstock.client import transaction
from penstock.client.consumer import PushConsumer
from penstock.client.errors import Closed
from penstock.client.message import Message, Received, Sent
from penstock.client.sending import Target
from penstock.client.transaction import Outcome, Transacted

T = TypeVar("T")

AT_ONCE = 256


class _Loop:
    """A loop in a thread."""

    def __init__(self, name: str) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        self._closed = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._over.wait()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine. It is cancelled when the wait is interrupted, as by ctrl-C."""
        future = self.begin(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        if self._closed or threading.current_thread() is self._thread:
            coroutine.close()
            raise Closed(
                "this client is closed" if self._closed else "called from within itself: it would wait for ever"
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, what: Callable[..., object], *args: object) -> None:
        """Have something called in the loop, soon."""
        self._loop.call_soon_threadsafe(what, *args)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()


class Producer:
    """Takes what `penstock.client.producer.Producer` takes."""

    def __init__(self, servers: str, group: str = "DEFAULT_PRODUCER", **options: Any) -> None:
        self._inner = asynchronous.Producer(servers, group, **options)
        self._loop = _Loop(f"producer {group}")
        self._loop.run(self._inner.start())

    def send(self, message: Message, to: Target = None) -> Sent:
        return self._loop.run(self._inner.send(message, to))

    def send_all(self, messages: Iterable[Message], at_once: int = AT_ONCE) -> list[Sent]:
        """Send many, so many of them at once: much faster than one by one. Those of one moment may be stored in any
        order. What goes wrong with one is raised when the others of its moment are done, and no more are sent.
        """
        left, sent = iter(messages), list[Sent]()
        while some := list(itertools.islice(left, at_once)):
            sent += self._loop.run(self._all(some))
        return sent

    async def _all(self, messages: Sequence[Message]) -> list[Sent]:
        found = await asyncio.gather(*map(self._inner.send, messages), return_exceptions=True)
        return [_or_raised(one) for one in found]

    def send_oneway(self, message: Message, to: Target = None) -> None:
        self._loop.run(self._inner.send_oneway(message, to))

    def send_batch(self, messages: Sequence[Message], to: Target = None) -> list[Sent]:
        return self._loop.run(self._inner.send_batch(messages, to))

    def request(self, message: Message, timeout_ms: int = 3_000, to: Target = None) -> Received:
        return self._loop.run(self._inner.request(message, timeout_ms, to))

    def reply(self, request: Received, body: bytes, properties: Mapping[str, str] | None = None) -> None:
        self._loop.run(self._inner.reply(request, body, properties))

    def close(self) -> None:
        try:
            self._loop.run(self._inner.close())
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


Work = Callable[[Message, str], Outcome]
Check = Callable[[Received], Outcome]


class TransactionProducer:
    """Takes what `penstock.client.transaction.TransactionProducer` takes. `check` is called in a thread of its own,
    always the same one, one message after the other; the work of a transaction is done by whoever sends it.
    """

    def __init__(self, servers: str, group: str, check: Check, *, topics: Iterable[str] = (), **options: Any) -> None:
        self._check, self._checking = check, ThreadPoolExecutor(1, f"checks of {group}")
        self._inner = transaction.TransactionProducer(servers, group, self._checked, topics=topics, **options)
        self._loop = _Loop(f"transactions {group}")
        try:
            self._loop.run(self._inner.start())
        except BaseException:
            self.close()
            raise

    async def _checked(self, half: Received) -> Outcome:
        return await asyncio.get_running_loop().run_in_executor(self._checking, self._check, half)

    def send(self, message: Message, work: Work, first_check_s: int = 0) -> Transacted:
        """Store the message, hidden; do the work, here; tell the broker what came of it. What the work raises is passed
        on, and the broker is left to ask.
        """
        steps: queue.SimpleQueue[_Step | None] = queue.SimpleQueue()

        async def handed_over(message: Message, transaction_id: str) -> Outcome:
            step = _Step(message, transaction_id)
            steps.put(step)
            return await step.outcome

        sending = self._loop.begin(self._inner.send(message, handed_over, first_check_s))
        sending.add_done_callback(lambda done: steps.put(None))
        try:
            step = steps.get()
            if step is not None:  # it is stored
                outcome = work(step.message, step.transaction_id)
                self._loop.call(step.outcome.set_result, outcome)
            return sending.result()
        except BaseException:
            sending.cancel()
            raise

    def close(self) -> None:
        try:
            self._loop.run(self._inner.close())
        finally:
            self._loop.close()
            self._checking.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Step:
    """The work of a transaction, to be done in the thread that sends it."""

    def __init__(self, message: Message, transaction_id: str) -> None:
        self.message, self.transaction_id = message, transaction_id
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()


def _or_raised(found: Sent | BaseException) -> Sent:
    if isinstance(found, BaseException):
        raise found
    return found


class Consumer:
    """Takes what `PushConsumer` takes, but a handler. A message is done when the next one is asked for, or at a close
    that no exception has caused; what is not done comes again.
    """

    def __init__(self, servers: str, group: str, topics: Mapping[str, str], **options: Any) -> None:
        self._loop = _Loop(f"consumer {group}")
        try:
            self._inner = self._loop.run(self._started(servers, group, topics, options))
        except BaseException:
            self._loop.close()
            raise
        self._messages = aiter(self._inner)

    async def _started(
        self, servers: str, group: str, topics: Mapping[str, str], options: dict[str, Any]
    ) -> PushConsumer:
        consumer = PushConsumer(servers, group, topics=topics, **options)
        await consumer.start()
        return consumer

    def receive(self, timeout_ms: int | None = None) -> Received | None:
        """The next message; None when none came in time, or the consumer was closed meanwhile."""
        return self._loop.run(self._next(timeout_ms))

    async def _next(self, timeout_ms: int | None) -> Received | None:
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                return await anext(self._messages, None)
        except TimeoutError:
            return None

    def reply(self, request: Received, body: bytes, properties: Mapping[str, str] | None = None) -> None:
        self._loop.run(self._inner.reply(request, body, properties))

    def __iter__(self) -> Iterator[Received]:
        while (message := self.receive()) is not None:
            yield message

    def close(self, good: bool = True) -> None:
        """`good`: the message in hand is done."""
        try:
            self._loop.run(self._inner.close(good))
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(good=kind is None)
