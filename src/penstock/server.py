"""The composition root: a broker, the gateways in front of it, and the process around them.

Start: folder and recovery first, then the ports, then the ready file; whoever sees that file can connect. Stop: the
other way round; the connections get half of the time there is to finish what is under way, the broker the rest. A start
that fails leaves nothing open.

A gateway is a line in `GATEWAYS`; a port without a gateway is not opened.
"""

import asyncio
import contextlib
import errno
import gc
import ipaddress
import json
import os
import signal
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from penstock import logs
from penstock.clock import Clock, SystemClock
from penstock.config import Config, ServerConfig
from penstock.core.broker import Broker, EncodeEvent
from penstock.core.events import EVENTS_TOPIC
from penstock.core.stages import Frost
from penstock.errors import ConfigError, PenstockError, StoreClosed, StoreError
from penstock.gateway.guests import Gateway, Guests
from penstock.gateway.http import http_gateway
from penstock.gateway.http.routes import Router
from penstock.gateway.rocketmq import rocketmq_gateway, rocketmq_router
from penstock.gateway.rocketmq.house import House
from penstock.gateway.rocketmq.kept import Kept
from penstock.model import Entry
from penstock.wire import plain
from penstock.wire.rocketmq import properties, record, runs

if TYPE_CHECKING:
    from penstock.gateway.pulsar import Sides

log = logs.get(__name__)

EXIT_STOPPED, EXIT_UNCLEAN = 0, 1
BACKLOG = 1_024  # connections that wait to be taken: after a restart all clients come at once


class Entrance(NamedTuple):
    """A gateway and the setting with its port."""

    setting: str
    gateway: "Callable[[Server], Gateway]"


class Listening(NamedTuple):
    sockets: asyncio.Server
    guests: Guests


class Server:
    """A broker with its ports open. `addresses` has one line per gateway: {"http": "127.0.0.1:8080"}."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self.config, self.clock = config, clock or SystemClock()
        self.addresses: dict[str, str] = {}
        self._broker: Broker | None = None
        self._state = "starting"
        self._listening: list[Listening] = []
        self._kept: Kept | None = None
        self._house = House(config.server, lambda: self.port_of("broker"))

    def port_of(self, gateway: str) -> int:
        """The port that a gateway listens on; 0 before it does."""
        return int(self.addresses.get(gateway, "").rpartition(":")[2] or 0)

    @property
    def broker(self) -> Broker:
        if self._broker is None:
            raise StoreClosed
        return self._broker

    @property
    def kept(self) -> Kept:
        """What RocketMQ clients have sent to come later."""
        if self._kept is None:
            raise StoreClosed
        return self._kept

    def obstacle(self) -> str:
        """Why clients should not be sent here; empty when they should."""
        if self._state != "running":
            return self._state
        return "" if self.broker.ready else self.broker.state

    @cached_property
    def rocketmq(self) -> Gateway:
        """Name server and broker are one: whatever port a client comes to, it is the same group that it joins."""
        settings = self.config.rocketmq
        create = settings.auto_create_topics, settings.auto_create_groups
        router = rocketmq_router(self.broker, self._house, self.clock, self.kept, *create)
        return rocketmq_gateway(router, settings, self.broker.turn)

    @cached_property
    def pulsar(self) -> "Sides":
        """The binary side and the HTTP side of Pulsar: what one changes, the other sees."""
        from penstock.gateway.pulsar import pulsar_sides  # here: protobuf takes as long to load as half of all else
        from penstock.gateway.pulsar.lookup import Home

        home = Home(self.config.server, lambda: self.port_of("pulsar"), lambda: self.port_of("http"))
        return pulsar_sides(self.broker, home, self.clock, self.config.pulsar, self.obstacle)

    def _event_entry(self, queue: int, body: bytes, kind: str, at_ms: int) -> Entry:
        """Events are messages that any RocketMQ consumer can read, by kind as the tag."""
        return record.own_record(queue, EVENTS_TOPIC, body, {properties.TAGS: kind}, at_ms, self._house.own_store_host)

    def open(self) -> None:
        """The folder and its recovery. Needs no loop."""
        check_host(self.config.server)
        _remove(self.config.server.ready_file)
        self._broker = _opened(self.config, self.clock, self._event_entry)

    async def start(self) -> None:
        """Open everything that is not open yet, or raise a PenstockError and leave nothing open."""
        server = self.config.server
        if self._broker is None:
            self.open()
        try:
            await self.broker.start()
            self._kept = Kept(self.broker, self.clock, self.config.rocketmq)
            for name, entrance in GATEWAYS.items():
                self.addresses[name] = await self._listen(entrance)
            self.kept.start()
            self.broker.staging.resume()
            self._state = "running"
            _write_ready_file(server.ready_file, self.addresses)
        except BaseException:
            await self._give_up()
            raise
        log.info("ready", data=server.data, durability=self.config.store.durability, **self.addresses)

    async def stop(self) -> None:
        """Drain and close. TimeoutError when the broker did not manage in time: it recovers at its next start."""
        self._state = "stopping"
        patience_ms = self.config.server.stop_timeout_ms // 2
        _remove(self.config.server.ready_file)
        for listening in self._listening:
            listening.sockets.close()
        cut_off = await asyncio.gather(*(listening.guests.see_off(patience_ms) for listening in self._listening))
        if sum(cut_off):
            log.warning("connections cut off", connections=sum(cut_off))
        self._listening.clear()
        if self._kept is not None:
            self._kept.stop()
        await asyncio.wait_for(self.broker.stop(), max(patience_ms, 1) / 1000)
        log.info("stopped")

    async def _give_up(self) -> None:
        """Close what was opened by a start that failed; why it failed is what the caller hears."""
        try:
            await self.stop()
        except Exception:
            log.exception("what had been started did not stop")

    async def _listen(self, entrance: Entrance) -> str:
        server, gateway = self.config.server, entrance.gateway(self)
        host, port = _resolved(server.host), getattr(server, entrance.setting)
        try:
            sockets = await asyncio.get_running_loop().create_server(gateway.connect, host, port, backlog=BACKLOG)
        except OSError as error:
            raise ConfigError(_why_not_listening(error, host, port, entrance.setting)) from error
        self._listening.append(Listening(sockets, gateway.guests))
        return _address(sockets)


GATEWAYS: dict[str, Entrance] = {
    "namesrv": Entrance("namesrv_port", lambda server: server.rocketmq),
    "broker": Entrance("broker_port", lambda server: server.rocketmq),
    "pulsar": Entrance("pulsar_port", lambda server: server.pulsar.gateway),
    "http": Entrance("http_port", lambda server: http_gateway(_router(server), server.config.http)),
}


def _router(server: Server) -> Router:
    from penstock.gateway.pulsar.admin import MOUNTS

    mounts = dict.fromkeys(MOUNTS, server.pulsar.admin.answer)
    broker = server.broker
    return Router(broker.authorizer, broker.metrics, server.obstacle, broker.loans.take_back, mounts)


# --- the process ------------------------------------------------------------------------------------------------------


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    During recovery, which comes before the loop, a signal ends the process at once: it can be broken off anywhere.
    """
    server = Server(config)
    server.open()
    return asyncio.run(_serve(server))


def _spare_the_collector() -> None:
    """What is here at the start stays: the garbage collector need not look at it again and again, which would show in
    the slowest answers. Messages make no cycles, so it need not look often either.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


async def _serve(server: Server) -> int:
    signalled = _signalled()
    await server.start()
    _spare_the_collector()
    await signalled.wait()
    try:
        await server.stop()
    except (TimeoutError, PenstockError) as error:
        log.error("not stopped cleanly: the next start recovers", error=str(error) or "it took too long")
        _leave(EXIT_UNCLEAN)
    return EXIT_STOPPED


def _signalled() -> asyncio.Event:
    """Set at the first signal; the second ends the process where it stands, as a crash would."""
    loop, first = asyncio.get_running_loop(), asyncio.Event()

    def take(number: signal.Signals) -> None:
        if first.is_set():
            log.warning("stopped at once", signal=number.name)
            _leave(128 + number)
        log.info("stopping", signal=number.name)
        first.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, take, number)
    return first


def _leave(code: int) -> None:
    """Without waiting for worker threads, which may hang in the disk."""
    os._exit(code)


# --- pieces -----------------------------------------------------------------------------------------------------------


def check_host(server: ServerConfig) -> None:
    """Without authentication only this machine may connect, unless somebody has said that they know."""
    if server.insecure or _is_loopback(_resolved(server.host)):
        return
    raise ConfigError(
        f"other machines can reach {server.host}, and whoever reaches this broker may do everything: "
        "listen on 127.0.0.1, or say --insecure if all of that network is trusted"
    )


def _resolved(host: str) -> str:
    """`localhost` would open two sockets, and port 0 two different ports."""
    return "127.0.0.1" if host == "localhost" else host


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may mean anything
        return False


SPLITTERS = {plain.PLAIN_RUN: plain.split, record.RECORD_RUN: record.split}  # how the runs of each encoding come apart


def _opened(config: Config, clock: Clock, encode: EncodeEvent) -> Broker:
    try:
        return Broker.open(config, clock, SPLITTERS, encode, Frost(runs.freeze, runs.thaw))
    except OSError as error:
        raise StoreError(f"the data folder {config.server.data} cannot be used: {error.strerror or error}") from error


_REASONS = {
    errno.EADDRINUSE: "is in use: stop what uses it, or choose another",
    errno.EACCES: "may not be opened by this user: choose one above 1023",
    errno.EADDRNOTAVAIL: "cannot be opened, since this machine does not have that address: choose another host",
}


def _why_not_listening(error: OSError, host: str, port: int, setting: str) -> str:
    flag = "--" + setting.replace("_", "-")
    reason = _REASONS.get(error.errno or 0, f"cannot be opened ({error.strerror or error}): choose another")
    return f"port {port} on {host} {reason} ({flag}; 0 takes any that is free)"


def _address(sockets: asyncio.Server) -> str:
    host, port = sockets.sockets[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _write_ready_file(path: str, addresses: dict[str, str]) -> None:
    """Whole or not at all, since somebody is waiting for it to appear."""
    if not path:
        return
    try:
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            file.write(json.dumps({**addresses, "pid": os.getpid()}) + "\n")
        os.replace(f"{path}.new", path)
    except OSError as error:
        raise ConfigError(f"the ready file {path} cannot be written: {error.strerror} (--ready-file)") from error


def _remove(path: str) -> None:
    if path:
        with contextlib.suppress(OSError):
            os.unlink(path)
