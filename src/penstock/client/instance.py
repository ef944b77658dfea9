"""What all producers and consumers of one ClientID share: links, routes, heartbeats, and what brokers ask.

A *member* (a producer or a consumer) registers under its group. The instance refreshes the routes of its topics,
heartbeats for all members at once, and hands a broker's request to the member it is for. The clock and the network are
passed in; timers are tasks of the running loop.

One instance, one loop. Members are started and stopped by themselves; the last one closes the instance.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Protocol

import msgspec

from penstock import logs
from penstock.client.cluster import Cluster, name_servers
from penstock.client.episodes import Troubles
from penstock.client.errors import ClientError, NoRoute
from penstock.client.identity import UniqueKeys
from penstock.client.link import Dial, Link, Links
from penstock.client.routes import MASTER
from penstock.clock import Clock, SystemClock
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame

log = logs.get(__name__)


class Timers(msgspec.Struct, frozen=True):
    """How often what is done; RocketMQ's."""

    route_interval_ms: int = 30_000
    heartbeat_interval_ms: int = 30_000
    persist_interval_ms: int = 5_000
    rebalance_interval_ms: int = 20_000
    request_timeout_ms: int = 3_000
    connect_timeout_ms: int = 3_000


class Member(Protocol):
    """A producer or a consumer, as its instance sees it."""

    @property
    def producer_group(self) -> str:
        """Empty for one that does not produce."""
        ...

    def consumer_data(self) -> dict[str, object] | None:
        """What its heartbeat says; None for one that does not consume."""
        ...

    @property
    def topics(self) -> Iterable[str]:
        """Those whose routes it needs."""
        ...

    def asked(self, frame: Frame, link: Link) -> bool:
        """A broker asks something; False when it is not for this member."""
        ...

    def routes_changed(self) -> None: ...


class Instance:
    def __init__(
        self,
        servers: str,
        client_id: str,
        clock: Clock | None = None,
        timers: Timers | None = None,
        dial: Dial | None = None,
    ) -> None:
        self.client_id, self.clock, self.timers = client_id, clock or SystemClock(), timers or Timers()
        self._links = Links(self._asked, dial, self.timers.connect_timeout_ms)
        self.cluster = Cluster(name_servers(servers), self._links, self.timers.request_timeout_ms)
        self._members: list[Member] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._beating = asyncio.Lock()
        self._troubles = Troubles(log)
        self._keys = UniqueKeys()

    def next_key(self) -> str:
        """An id for a message."""
        return self._keys.next(self.clock.now_ms())

    # --- members ------------------------------------------------------------------------------------------------------

    def join(self, member: Member) -> None:
        self._members.append(member)
        if not self._tasks:
            every = (
                (self.refresh, self.timers.route_interval_ms, "routes"),
                (self.heartbeat, self.timers.heartbeat_interval_ms, "heartbeats"),
            )
            self._tasks = [self.repeat(what, interval_ms, name) for what, interval_ms, name in every]

    async def leave(self, member: Member, **groups: str) -> None:
        """Take a member out and tell the brokers (`producerGroup=`, `consumerGroup=`); the last one closes all."""
        if member not in self._members:
            return
        self._members.remove(member)
        await self._unregister(**groups)
        if not self._members:
            await self.close()

    async def _unregister(self, **groups: str) -> None:
        asked = {"clientID": self.client_id, **groups}
        for address in self._addresses(slaves=True) if groups else ():
            try:
                await self.cluster.get(address, RequestCode.UNREGISTER_CLIENT, asked, b"", 1_000)
            except ClientError as error:  # it finds out by itself, two minutes later at the latest
                log.debug("a broker could not be told that a client leaves", address=address, error=str(error))

    async def rename(self, client_id: str, group: str) -> None:
        """Leave a consumer group under one ClientID and join it under another."""
        log.warning("a fresh ClientID is taken", group=group, before=self.client_id, after=client_id)
        await self._unregister(consumerGroup=group)
        self.client_id = client_id
        await self.heartbeat()

    async def close(self) -> None:
        """Stop the timers and close all links."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        self._links.close()

    def repeat(self, what: Callable[[], Awaitable[object]], interval_ms: int, name: str) -> asyncio.Task[None]:
        """Do something again and again; what goes wrong is logged, once, and tried again the next time."""

        async def run() -> None:
            while True:
                await asyncio.sleep(interval_ms / 1000)
                try:
                    await what()
                except ClientError as error:
                    self._troubles.met(run, "not this time, it is tried again", error, what=name)
                except Exception:
                    log.exception("failed, it is tried again", what=name)
                else:
                    self._troubles.over(run, "it works again", what=name)

        return asyncio.ensure_future(run())

    # --- routes and heartbeats ----------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Ask for the routes of all topics anew; members hear of it when one has changed."""
        topics = sorted({topic for member in self._members for topic in member.topics})
        self._tell_members(any([await self._changed(topic) for topic in topics]))

    async def look_again(self, topic: str) -> None:
        """The same for one topic, which somebody has trouble with."""
        self._tell_members(await self._changed(topic))

    async def _changed(self, topic: str) -> bool:
        before = self.cluster.known(topic)
        try:
            return await self.cluster.fetch(topic) != before
        except NoRoute:
            return before is not None

    def _tell_members(self, changed: bool) -> None:
        for member in self._members if changed else ():
            member.routes_changed()

    async def heartbeat(self) -> None:
        """Tell every broker who is here: one message for all members."""
        async with self._beating:
            consumers = [data for member in self._members if (data := member.consumer_data()) is not None]
            producers = [{"groupName": group} for group in sorted({m.producer_group for m in self._members} - {""})]
            if not consumers and not producers:
                return
            body = msgspec.json.encode(
                {"clientID": self.client_id, "consumerDataSet": consumers, "producerDataSet": producers}
            )
            await asyncio.gather(*(self._beat(address, body) for address in self._addresses(bool(consumers))))

    async def _beat(self, address: str, body: bytes) -> None:
        try:
            await self.cluster.get(address, RequestCode.HEART_BEAT, {}, body)
        except ClientError as error:
            self._troubles.met(address, "a heartbeat was not taken, it is tried again", error, address=address)
        else:
            self._troubles.over(address, "heartbeats are taken again", address=address)

    def _addresses(self, slaves: bool) -> list[str]:
        """The brokers of the known routes; their slaves only matter to consumers."""
        return [
            address
            for broker in self.cluster.brokers().values()
            for number, address in sorted(broker.broker_addrs.items())
            if slaves or number == MASTER
        ]

    # --- what brokers ask ---------------------------------------------------------------------------------------------

    def _asked(self, frame: Frame, link: Link) -> None:
        for member in list(self._members):
            if member.asked(frame, link):
                return
        link.reply(frame, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"request code {frame.code} is not served here")
