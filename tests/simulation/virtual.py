"""Time and network that a seed owns.

`VirtualLoop` is asyncio's loop with a clock that jumps to the next timer as soon as nothing is left to do: minutes pass
in milliseconds, and the same seed always does the same. What would run in a thread runs at once. `Network` carries
bytes between protocols with delays that the seed draws, in order within a connection, and can be cut anywhere.
"""

import asyncio
import contextvars
import random
import selectors
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

START_MS = 1_700_000_000_000


class _Selector(selectors.DefaultSelector):
    """Never waits: it moves the loop's clock instead."""

    loop: "VirtualLoop"

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("nothing is left to do and nobody will ever come")
            self.loop.now += max(timeout, 0)
        return ready


class _AtOnce(ThreadPoolExecutor):
    def submit(self, function, /, *args, **kwargs):
        future: Future = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # it is raised where the result is asked for
            future.set_exception(error)
        return future


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="")  # whose task this is


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-6
        self.set_default_executor(_AtOnce(1))
        self._owners: dict[asyncio.Task, str] = {}
        self.set_task_factory(self._make_task)

    def _make_task(self, loop, coroutine, context=None):
        task = asyncio.Task(coroutine, loop=loop, context=context)
        self._owners[task] = context[WHO] if context is not None and WHO in context else WHO.get()
        task.add_done_callback(self._owners.pop)
        return task

    def kill(self, who: str) -> None:
        """End all tasks of somebody where they stand."""
        for task in [task for task, owner in self._owners.items() if owner == who]:
            task.cancel()

    def time(self) -> float:
        return self.now


class VirtualClock:
    """The loop's time for everything that asks a clock."""

    def now_ms(self) -> int:
        return START_MS + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(asyncio.get_event_loop().time() * 1_000)


class Pipe(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self, network: "Network", protocol: asyncio.BufferedProtocol, name: str, peer: str, owner: str
    ) -> None:
        super().__init__({"peername": _pair(peer), "sockname": _pair(name)})
        self._network, self._protocol = network, protocol
        self.context = contextvars.copy_context()  # what is received is handled as the owner's
        self.context.run(WHO.set, owner)
        self.other: Pipe
        self._closed = False
        self._arrives = 0.0
        self.stalled: list[bytes] | None = None  # what waits while the connection stalls

    def write(self, data) -> None:
        if self._closed:
            return
        if self.stalled is not None:
            self.stalled.append(bytes(data))
            return
        self._network.carried += 1
        self._later(self.other._receive, bytes(data))

    def _later(self, what, *args) -> None:
        loop = asyncio.get_event_loop()
        self._arrives = max(self._arrives, loop.time() + self._network.delay_s())
        loop.call_at(self._arrives, what, *args, context=self.other.context)

    def _receive(self, data: bytes) -> None:
        while data and not self._closed:
            view = self._protocol.get_buffer(len(data))
            count = min(len(view), len(data))
            view[:count] = data[:count]
            self._protocol.buffer_updated(count)
            data = data[count:]

    def close(self) -> None:
        if not self._closed:
            self._later(self.other._lost)
            self._lost()

    def abort(self) -> None:
        self.close()

    def _lost(self) -> None:
        if not self._closed:
            self._closed = True
            asyncio.get_event_loop().call_soon(self._protocol.connection_lost, None, context=self.context)

    def vanish(self) -> None:
        """Neither side hears of it at once: as when a machine loses its power."""
        self._closed = True
        asyncio.get_event_loop().call_soon(self._protocol.connection_lost, OSError("gone"), context=self.context)

    def go_on(self) -> None:
        waiting, self.stalled = self.stalled or [], None
        for data in waiting:
            self.write(data)

    def is_closing(self) -> bool:
        return self._closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Deliveries are small: they come all the same."""

    def resume_reading(self) -> None:
        pass


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class Network:
    def __init__(self, seed: random.Random) -> None:
        self._random = seed
        self._listening: dict[str, Callable[[], asyncio.BufferedProtocol]] = {}
        self._ports = 40_000
        self.carried = 0  # writes, so far
        self.pipes: dict[str, list[Pipe]] = {}  # the clients' ends, by who dialled

    def listen(self, address: str, connect: Callable[[], asyncio.BufferedProtocol]) -> None:
        self._listening[address] = connect

    def delay_s(self) -> float:
        return self._random.choice((0.0005, 0.001, 0.003, 0.02))

    def dialler(self, who: str):
        """What a client is given to open connections with."""

        async def dial(make, host: str, port: int):
            await asyncio.sleep(self.delay_s())
            address = f"{host}:{port}"
            if address not in self._listening:
                raise ConnectionRefusedError(address)
            self._ports += 1
            mine, theirs = make(), self._listening[address]()
            own = f"127.0.0.1:{self._ports}"
            near, far = Pipe(self, mine, own, address, who), Pipe(self, theirs, address, own, "")
            near.other, far.other = far, near
            self.pipes.setdefault(who, []).append(near)
            theirs.connection_made(far)
            mine.connection_made(near)
            return near, mine

        return dial

    def crash(self, who: str) -> None:
        """All connections of a client are gone; the broker sees them close."""
        for pipe in self.pipes.pop(who, []):
            if not pipe.is_closing():
                pipe.other.close()
                pipe.vanish()

    def stall(self, who: str) -> None:
        for pipe in self.pipes.get(who, []):
            if not pipe.is_closing():
                pipe.stalled, pipe.other.stalled = [], []

    def go_on(self, who: str) -> None:
        for pipe in self.pipes.get(who, []):
            if pipe.stalled is not None:
                pipe.go_on()
                pipe.other.go_on()
