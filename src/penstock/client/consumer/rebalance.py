"""Which queues are this instance's: worked out from the queues of a topic and the members of the group, by a strategy
that all of them share. Nobody is in charge: each takes its own share, and lets go of what is none of it.

`change` is the decision; `Shares` asks for what it needs.
"""

import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from penstock import logs
from penstock.client.allocate import Strategy
from penstock.client.consumer.twins import Twins, addresses_of, backlog_of
from penstock.client.errors import ClientError, NoRoute
from penstock.client.identity import fresh_client_id
from penstock.client.instance import Instance
from penstock.client.routes import MessageQueue, Route, ids_in_order
from penstock.wire.rocketmq.codes import RequestCode

log = logs.get(__name__)


class Change(NamedTuple):
    """What a rebalance does to one topic."""

    drop: list[MessageQueue]
    take: list[MessageQueue]


def change(owned: Collection[MessageQueue], share: Collection[MessageQueue]) -> Change:
    """From what is owned to what should be."""
    return Change([queue for queue in owned if queue not in share], [queue for queue in share if queue not in owned])


class _ConsumerList(msgspec.Struct, rename="camel"):
    consumer_id_list: list[str] = []


class Shares:
    """This instance's share of a topic."""

    def __init__(self, instance: Instance, group: str, strategy: Strategy, broadcast: bool, twins: Twins) -> None:
        self._instance, self._group, self._broadcast, self._twins = instance, group, broadcast, twins
        self.strategy = strategy

    async def of(self, topic: str) -> list[MessageQueue] | None:
        """The queues that this instance should own; None when that cannot be told now, and everything stays."""
        try:
            route = await self._instance.cluster.route(topic)
        except NoRoute as error:
            log.debug("no share of a topic that nobody has", group=self._group, error=str(error))
            return None
        queues = route.to_read(topic)
        if not queues:
            return queues
        ids = await self._members(route)
        if ids is not None and (found := self._twins.look(self._instance.client_id, queues, ids)) is not None:
            broker = route.broker_datas[0].broker_name
            addresses = await addresses_of(self._instance.cluster, broker, self._group, found.client_id)
            self._twins.say(found, addresses, await self._backlog(found.by_nobody))
        if self._broadcast:
            return queues
        if ids is None:
            return None
        share = self.strategy.allocate(self._group, self._instance.client_id, queues, ids)
        return [queue for queue in share if queue.topic == topic]  # by config, it is the same for every topic

    async def _backlog(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return await backlog_of(self._instance.cluster, self._group, queues)

    async def leave_to_twin(self, drop: Callable[[], Awaitable[None]]) -> None:
        """The twin is there for good: leave the share to it, and join as somebody else."""
        await self._twins.say_growth(self._backlog)
        await drop()
        await self._instance.rename(fresh_client_id(), self._group)
        self._twins.renamed()

    async def _members(self, route: Route) -> list[str] | None:
        """The ClientIDs of the group, once per connection. A broker that does not know this one (it has just started,
        or is new in the route) is told, and asked again.
        """
        ids = await self._listed(route)
        if ids is None or self._instance.client_id not in ids:
            await self._instance.heartbeat()
            ids = await self._listed(route)
        return None if ids is None else ids_in_order(ids)

    async def _listed(self, route: Route) -> list[str] | None:
        """What the first broker says that answers."""
        for address in _addresses(route):
            asked = {"consumerGroup": self._group}
            try:
                answer = await self._instance.cluster.get(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, asked)
                return msgspec.json.decode(answer.body, type=_ConsumerList).consumer_id_list
            except (ClientError, msgspec.DecodeError) as error:
                log.debug("no list of the members of a group", group=self._group, address=address, error=str(error))
        return None


def _addresses(route: Route) -> Iterable[str]:
    """One address of each broker, in any order."""
    brokers = [broker.broker_addrs for broker in route.broker_datas if broker.broker_addrs]
    return [addresses[min(addresses)] for addresses in random.sample(brokers, len(brokers))]
