"""A broker inside the test process: on free ports and a temporary folder, with nothing left behind.

    with running() as penstock:                       # a thread of its own: for tests that are not coroutines
        urlopen(penstock.http + "/readyz")

    async with serving(store={"durability": "async"}) as penstock:      # in the test's own loop
        ...

It is the same server as `penstock serve`, without the process. Settings are given as sections of the configuration;
neither a file nor the environment is looked at. A test that wants time to pass gives a clock of its own.
"""

import asyncio
import contextlib
import copy
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping

from penstock import configure
from penstock.clock import Clock
from penstock.config import Config
from penstock.server import Server

PORTS = ("namesrv_port", "broker_port", "pulsar_port", "http_port")


class Running:
    """A broker that can be connected to."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @property
    def config(self) -> Config:
        return self.server.config

    @property
    def addresses(self) -> dict[str, str]:
        """HOST:PORT by gateway."""
        return self.server.addresses

    @property
    def http(self) -> str:
        """Where the HTTP side is, as the beginning of a URL."""
        return f"http://{self.addresses['http']}"


@contextlib.asynccontextmanager
async def serving(
    config: Config | None = None, clock: Clock | None = None, **sections: Mapping[str, object]
) -> AsyncIterator[Running]:
    """A broker in the loop that is running. A configuration that is given is taken as it is, sections on top of it."""
    with _configured(config, sections) as settings:
        server = Server(settings, clock)
        await server.start()
        try:
            yield Running(server)
        finally:
            await server.stop()


@contextlib.contextmanager
def running(
    config: Config | None = None, clock: Clock | None = None, **sections: Mapping[str, object]
) -> Iterator[Running]:
    """A broker in a thread with a loop of its own."""
    host = _Host(config, clock, sections)
    thread = threading.Thread(target=host.run, name="penstock", daemon=True)
    thread.start()
    try:
        yield host.started()
    finally:
        host.stop()
        thread.join()
    host.raise_failure()


@contextlib.contextmanager
def _configured(config: Config | None, sections: configure.Sections) -> Iterator[Config]:
    with contextlib.ExitStack() as stack:
        if config is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-"))
            config = configure.load(None, {}, {"server": {"data": folder, **dict.fromkeys(PORTS, 0)}})
        yield configure.overlaid(copy.deepcopy(config), sections)


class _Host:
    """What the thread that serves and the thread that tests tell each other."""

    def __init__(self, config: Config | None, clock: Clock | None, sections: configure.Sections) -> None:
        self._config, self._clock, self._sections = config, clock, sections
        self._settled = threading.Event()  # serving, or failed to
        self._running: Running | None = None
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as failure:  # noqa: BLE001  # it is raised again in the thread of the test
            self._failure = failure
        finally:
            self._settled.set()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with serving(self._config, self._clock, **self._sections) as self._running:
            self._settled.set()
            await self._over.wait()

    def started(self) -> Running:
        self._settled.wait()
        self.raise_failure()
        assert self._running
        return self._running

    def stop(self) -> None:
        if self._running and not self._failure:
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has failed in the meantime
                self._loop.call_soon_threadsafe(self._over.set)

    def raise_failure(self) -> None:
        if self._failure:
            raise self._failure
