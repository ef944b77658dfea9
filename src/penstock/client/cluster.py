"""A cluster as a client sees it: name servers, routes, brokers. Answers "who has this topic" and "ask that broker".

Routes are kept and asked for anew every `route_interval_ms` (by `Instance`) or when something did not work. One name
server is stuck to; the next one is tried when it fails.

Who is asked: what must not be decided twice (sends, locks, where queues end) the master alone; how far a group is, the
master, or a slave when no name server knows a master; pulls, whoever can be reached (`pulling.py`).
"""

import asyncio
import random
from collections.abc import Sequence

import msgspec

from penstock import logs
from penstock.client.errors import ClientError, NoBroker, NoRoute, Refused, TopicNotFound, Unreachable, refusal
from penstock.client.link import Ext, Link, Links
from penstock.client.routes import MASTER, BrokerData, MessageQueue, QueueData, Route, route_in
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.fastjson import FastjsonError
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.requests import DEFAULT_TOPIC

log = logs.get(__name__)

DEFAULT_QUEUES = 4  # of a topic that does not exist yet


def name_servers(text: str) -> list[str]:
    """Addresses with semicolons or commas between; a port may be left out."""
    found = [part.strip().removeprefix("rocketmq://").rstrip("/") for part in text.replace(",", ";").split(";")]
    found = [part if ":" in part else f"{part}:9876" for part in found if part]
    if not found:
        raise ValueError(f"{text!r} names no name server: give host:port, several with ; between")
    return found


class Cluster:
    def __init__(self, servers: Sequence[str], links: Links, timeout_ms: int = 3_000) -> None:
        self._servers, self._links, self._timeout_ms = list(servers), links, timeout_ms
        self._at = random.randrange(len(self._servers))
        self._routes: dict[str, Route] = {}
        self._brokers: dict[str, BrokerData] | None = None
        self._asking: dict[str, asyncio.Task[Route]] = {}

    # --- name servers -------------------------------------------------------------------------------------------------

    async def ask_names(self, code: int, ext: Ext, timeout_ms: int | None = None) -> Frame:
        """The answer of the first name server that gives one."""
        failures: list[ClientError] = []
        first, count = self._at, len(self._servers)
        for at in ((first + step) % count for step in range(count)):  # each once, whatever others find out meanwhile
            try:
                link = await self._links.to(self._servers[at])
                answer = await link.ask(code, ext, b"", timeout_ms or self._timeout_ms)
            except ClientError as error:
                failures.append(error)
            else:
                self._at = at
                return answer
        answered = [error for error in failures if not isinstance(error, Unreachable)]
        if len(failures) == 1 or answered:  # that one does not answer is known already: Links has said it
            raise (answered or failures)[0]
        raise Unreachable(";".join(self._servers), "; ".join(str(error) for error in failures))

    async def fetch(self, topic: str) -> Route:
        """A topic's route, asked for now. Several who ask at once share the question."""
        task = self._asking.get(topic)
        if task is None:
            task = self._asking[topic] = asyncio.ensure_future(self._fetch(topic))
            task.add_done_callback(lambda done: self._asking.pop(topic, None))
        return await asyncio.shield(task)

    async def _fetch(self, topic: str) -> Route:
        asked = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await self.ask_names(RequestCode.GET_ROUTEINFO_BY_TOPIC, asked)
        server = self._servers[self._at]
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            self.forget(topic)
            raise NoRoute(topic, server)
        if answer.code != ResponseCode.SUCCESS:
            raise refusal(answer, server)
        try:
            route = route_in(answer.body)
        except (FastjsonError, msgspec.ValidationError) as error:
            raise Refused(answer.code, f"its route for {topic!r} cannot be read: {error}", server) from None
        self._routes[topic], self._brokers = route, None
        return route

    async def route(self, topic: str) -> Route:
        """A topic's route: as it is known, or else asked for."""
        return self._routes.get(topic) or await self.fetch(topic)

    async def route_to_create(self, topic: str) -> Route:
        """As `route`; for a topic that does not exist, where it would be created by the first message."""
        try:
            return await self.route(topic)
        except NoRoute:
            pass
        try:
            default = await self.fetch(DEFAULT_TOPIC)
        except NoRoute as error:
            raise NoRoute(topic, error.address) from None
        return Route(queue_datas=[_clamped(data) for data in default.queue_datas], broker_datas=default.broker_datas)

    @property
    def topics(self) -> list[str]:
        """Those whose routes are kept."""
        return list(self._routes)

    def known(self, topic: str) -> Route | None:
        return self._routes.get(topic)

    def forget(self, topic: str) -> None:
        """Ask anew the next time."""
        self._routes.pop(topic, None)
        self._brokers = None

    # --- brokers ------------------------------------------------------------------------------------------------------

    def brokers(self) -> dict[str, BrokerData]:
        """All that the known routes name. Worked out when a route has changed: every send asks for it."""
        if self._brokers is None:
            found = (route.brokers() for route in self._routes.values())
            self._brokers = {name: broker for brokers in found for name, broker in brokers.items()}
        return self._brokers

    def address(self, broker: str) -> str:
        """Where a broker is: its master, or a slave when it has no master now."""
        return self.readers(broker)[0]

    def master(self, broker: str) -> str:
        """Where a broker's master is; Unreachable when it has none now."""
        known = self.brokers().get(broker)
        if known is None or MASTER not in known.broker_addrs:
            raise NoBroker(broker, "no name server knows its master (any more)")
        return known.broker_addrs[MASTER]

    def readers(self, broker: str, number: int = MASTER) -> list[str]:
        """Where a broker's queues can be read: at the one with that number, the master, the slaves, in this order."""
        known = self.brokers().get(broker)
        if known is None or not known.broker_addrs:
            raise NoBroker(broker)
        addresses = known.broker_addrs
        return [addresses[one] for one in sorted(addresses, key=lambda one: (one != number, one))]

    def is_master(self, broker: str, address: str) -> bool:
        known = self.brokers().get(broker)
        return known is not None and known.broker_addrs.get(MASTER) == address

    async def ask(self, address: str, code: int, ext: Ext, body: bytes = b"", timeout_ms: int | None = None) -> Frame:
        """The answer of a broker, whatever its code. Opening a link counts as waiting, too."""
        timeout_ms = timeout_ms or self._timeout_ms
        link = self._links.ready(address) or await self._opened(address, timeout_ms)
        return await link.ask(code, ext, body, timeout_ms)

    async def _opened(self, address: str, timeout_ms: int) -> Link:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._links.to(address)
        except TimeoutError:
            raise Unreachable(address, f"no connection within {timeout_ms} ms") from None

    def is_down(self, broker: str) -> bool:
        """Whether a broker's master could not be reached a moment ago."""
        known = self.brokers().get(broker)
        return known is not None and self._links.is_down(known.broker_addrs.get(MASTER, ""))

    def reachable(self, addresses: Sequence[str]) -> list[str]:
        """Those that have not failed a moment ago; the first when all have: it is waited for."""
        return [address for address in addresses if not self._links.is_down(address)] or list(addresses[:1])

    async def get(self, address: str, code: int, ext: Ext, body: bytes = b"", timeout_ms: int | None = None) -> Frame:
        """The answer of a broker when it is a success; Refused when not."""
        answer = await self.ask(address, code, ext, body, timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            raise refusal(answer, address)
        return answer

    async def tell(self, address: str, code: int, ext: Ext, body: bytes = b"") -> None:
        await (await self._links.to(address)).tell(code, ext, body)

    async def of_queue(self, code: int, queue: MessageQueue, address: str = "", **ext: object) -> Frame:
        """Ask the master of a queue something about it, or the one at that address."""
        fields = {
            "topic": queue.topic,
            "queueId": str(queue.queue),
            **{name: str(value) for name, value in ext.items()},
        }
        try:
            return await self.get(address or self.master(queue.broker), code, fields)
        except TopicNotFound:
            self.forget(queue.topic)
            raise


def _clamped(data: QueueData) -> QueueData:
    queues = min(DEFAULT_QUEUES, data.read_queue_nums, data.write_queue_nums)
    return QueueData(data.broker_name, queues, queues, data.perm)
