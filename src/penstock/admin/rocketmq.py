"""The engine behind rocketmq://: Penstock, or a real RocketMQ cluster of 4.9 or 5.x."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Self

from penstock.admin import flow, model, reset
from penstock.admin.errors import AlreadyThere, NotPossible, NotThere
from penstock.admin.flow import message_of
from penstock.admin.growth import twins_in, unread_in
from penstock.admin.place import Place
from penstock.client import tables
from penstock.client.errors import NoRoute
from penstock.client.operator import DEAD, RETRY, Operator
from penstock.client.reading import Wanted
from penstock.client.routes import READ, WRITE, MessageQueue

ASKED_AT_ONCE = 32
_SYSTEM = frozenset(
    {
        "TBW102",
        "BenchmarkTest",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "SCHEDULE_TOPIC_XXXX",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)
_SYSTEM_STARTS, _SYSTEM_ENDS = ("rmq_sys_", "RMQ_SYS_", "penstock_"), "_REPLY_TOPIC"
_PERMISSIONS = {"r": READ, "w": WRITE, "rw": READ | WRITE, "none": 0}
_OFFSET_ID_CHARS = {32: 4, 56: 16}  # by its length: the bytes of the address in it


class RocketmqEngine:
    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._operator = Operator(servers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._operator.instance.close()

    # --- topics -------------------------------------------------------------------------------------------------------

    async def topics(self) -> list[model.Topic]:
        configs, info = await self._operator.topic_configs(), await self._operator.brokers()
        own = {*info.cluster_addr_table, *info.broker_addr_table}
        found: dict[str, model.Topic] = {}
        for broker, by_name in configs.items():
            for name, config in by_name.items():
                line = found.setdefault(name, model.Topic(name, kind_of(name, own), [], 0, ""))
                line.brokers.append(broker)
                line.queues += config.read_queue_nums
                line.permissions = permissions_of(config.perm)
        return [found[name] for name in sorted(found)]

    async def topic(self, name: str) -> model.TopicDetail:
        shares = [
            model.Share(broker, config.read_queue_nums, config.write_queue_nums, permissions_of(config.perm))
            for broker, config in (await self._shares(name)).items()
        ]
        info = await self._operator.brokers()
        kind = kind_of(name, {*info.cluster_addr_table, *info.broker_addr_table})
        stats = await self._operator.topic_stats(name)
        queues = [
            model.Queue(q.broker, q.queue, max(one.min_offset, 0), one.max_offset, one.last_update_timestamp)
            for q, one in sorted(stats.items())
        ]
        return model.TopicDetail(name, kind, shares, queues, await self._operator.groups_of(name))

    async def _shares(self, name: str) -> dict[str, tables.TopicConfig]:
        configs = await self._operator.topic_configs()
        found = {broker: by_name[name] for broker, by_name in configs.items() if name in by_name}
        if not found:
            raise NotThere(f"there is no topic {name!r}: `penstock topic list` has all of them")
        return found

    async def create_topic(self, name: str, queues: int, permissions: str) -> None:
        """On every master of the cluster."""
        if any(name in by_name for by_name in (await self._operator.topic_configs()).values()):
            raise AlreadyThere(f"there is a topic {name!r} already: `penstock topic alter` changes it")
        config = tables.TopicConfig(name, queues, queues, permission_bits(permissions))
        for address in (await self._operator.masters()).values():
            await self._operator.put_topic(address, config)

    async def alter_topic(
        self, name: str, read_queues: int | None, write_queues: int | None, permissions: str | None
    ) -> None:
        """Where it is; what is None stays."""
        masters = await self._operator.masters()
        for broker, config in (await self._shares(name)).items():
            config.read_queue_nums = config.read_queue_nums if read_queues is None else read_queues
            config.write_queue_nums = config.write_queue_nums if write_queues is None else write_queues
            config.perm = config.perm if permissions is None else permission_bits(permissions)
            await self._operator.put_topic(masters[broker], config)

    async def delete_topic(self, name: str) -> None:
        await self._shares(name)
        await self._operator.delete_topic(name)

    # --- groups -------------------------------------------------------------------------------------------------------

    async def groups(self) -> list[model.Group]:
        names = sorted(await self._operator.group_configs())
        gate = asyncio.Semaphore(ASKED_AT_ONCE)

        async def line(name: str) -> model.Group:
            async with gate:
                there = await self._operator.connections(name)
            return model.Group(name, len(there.connection_set) if there else 0, model_of(there))

        return list(await asyncio.gather(*map(line, names)))

    async def group(self, name: str) -> model.GroupDetail:
        config = (await self._operator.group_configs()).get(name)
        there = await self._operator.connections(name)
        if config is None and there is None:
            raise NotThere(f"there is no group {name!r}: `penstock group list` has all of them")
        owned = await self._owned(name, there)
        members = [
            model.Member(one.client_id, one.client_addr, one.language, one.version, _texts(owned[one.client_id]))
            for one in (there.connection_set if there else ())
        ]
        subscriptions = [
            model.Subscription(topic, one.sub_string, one.expression_type or "TAG", one.sub_version)
            for topic, one in sorted((there.subscription_table if there else {}).items())
        ]
        lines, kind = await self._lag(name, "", there, owned), model_of(there)
        detail = model.GroupDetail(name, kind, members, subscriptions, sum(line.lag for line in lines), {})
        detail.settings, detail.twins = settings_of(config) if config else {}, twins_in(members)
        detail.unread = unread_in(lines, members) if kind == model.CLUSTER else []
        return detail

    async def delete_group(self, name: str) -> None:
        """Its settings, its offsets, its retries and dead letters. Not while somebody is in it."""
        there = await self._operator.connections(name)
        if there is not None:
            count = len(there.connection_set)
            raise NotPossible(
                f"{count} members of group {name!r} are connected: stop them first (`group show` has them)"
            )
        configs = await self._operator.topic_configs()
        topics = {name for by_name in configs.values() for name in by_name}
        if name not in await self._operator.group_configs():
            raise NotThere(f"there is no group {name!r}: `penstock group list` has all of them")
        await self._operator.delete_group(name)
        for topic in (RETRY + name, DEAD + name):
            if topic in topics:
                await self._operator.delete_topic(topic)

    async def _owned(self, group: str, there: tables.Connections | None) -> dict[str, list[MessageQueue] | None]:
        """What each member says that it reads."""
        clients = sorted({one.client_id for one in there.connection_set}) if there else []
        found = await asyncio.gather(*(self._operator.owned(group, client) for client in clients))
        return dict(zip(clients, found, strict=True))

    # --- lag ----------------------------------------------------------------------------------------------------------

    async def lag(self, group: str, topic: str = "") -> list[model.Lag]:
        there = await self._operator.connections(group)
        found = await self._lag(group, topic, there, await self._owned(group, there))
        if not found and there is None and group not in await self._operator.group_configs():
            raise NotThere(f"there is no group {group!r}: `penstock group list` has all of them")
        return found

    async def _lag(
        self,
        group: str,
        topic: str,
        there: tables.Connections | None,
        owned: dict[str, list[MessageQueue] | None],
    ) -> list[model.Lag]:
        if there is not None and model_of(there) == model.BROADCAST:
            topics = [topic] if topic else sorted(there.subscription_table)
            return [line for one in topics for line in await self._broadcast_lag(group, one)]
        stats = await self._operator.group_stats(group, topic)
        owners: dict[MessageQueue, list[str]] = {}
        for one in (
            there.connection_set if there else ()
        ):  # two of one ClientID have the same queues, and read them twice
            for queue in owned[one.client_id] or ():
                owners.setdefault(queue, []).append(one.client_id)
        return [
            model.Lag(
                group, q.topic, q.broker, q.queue, owners.get(q, []), stat.consumer_offset, stat.broker_offset,
                stat.last_timestamp,
            )
            for q, stat in sorted(stats.items())
        ]  # fmt: skip

    async def _broadcast_lag(self, group: str, topic: str) -> list[model.Lag]:
        """Each instance keeps its own offsets, and is asked for them."""
        try:
            stats = await self._operator.topic_stats(topic)
        except NoRoute:
            return []
        told = await self._operator.client_offsets(group, topic)
        return [
            model.Lag(group, topic, q.broker, q.queue, [client], offset, stats[q].max_offset, 0, True)
            for client, offsets in sorted(told.offsets.items())
            for q, offset in sorted(offsets.items())
            if q in stats
        ]

    # --- messages -----------------------------------------------------------------------------------------------------

    async def message(self, message_id: str, topic: str = "") -> model.Message | None:
        """By the id that its producer gave it (the topic has to be known), or by the broker's."""
        if topic:
            for found in await self._operator.find(topic, message_id, unique=True):
                return message_of(found)
        address, physical = address_in(message_id)
        if address in (await self._operator.masters()).values():  # nobody is asked but brokers of this cluster
            at = await self._operator.message_at(address, physical, topic)
            return message_of(at) if at else None
        if topic:
            return None
        raise NotPossible(
            f"{message_id} is not an id that a broker of this cluster gave: if its producer gave it, say --topic too"
        )

    async def messages(self, topic: str, key: str) -> list[model.Message]:
        return [message_of(found) for found in await self._operator.find(topic, key, unique=False)]

    def read(
        self, topic: str, start: Place, queues: Iterable[int], tags: str, sql: str, to_end: bool
    ) -> AsyncGenerator[list[model.Message], None]:
        wanted = Wanted(sql, sql=True) if sql else Wanted(tags)
        return flow.read(self.servers, topic, start, queues, wanted, to_end)

    def consume(
        self, topic: str, group: str, start: Place, tags: str, sql: str, to_end: bool, count: int | None
    ) -> AsyncGenerator[list[model.Message], None]:
        wanted = Wanted(sql, sql=True) if sql else Wanted(tags)
        return flow.consume(self.servers, topic, group, start, wanted, to_end, count)

    def send(self, messages: AsyncIterator[model.Outgoing], queue: int | None) -> AsyncGenerator[model.Receipt, None]:
        return flow.send(self.servers, messages, queue)

    # --- resets -------------------------------------------------------------------------------------------------------

    async def plan_reset(self, group: str, topic: str, to: Place, queue: int | None) -> model.ResetPlan:
        return await reset.plan(self._operator, group, topic, to, queue)

    async def reset(self, plan: model.ResetPlan) -> model.ResetResult:
        return await reset.carry_out(self._operator, plan)

    async def reset_state(self, plan: model.ResetPlan, result: model.ResetResult) -> model.ResetResult:
        return await reset.state(self._operator, plan, result)

    # --- what tools keep ----------------------------------------------------------------------------------------------

    async def kept(self, space: str) -> dict[str, list[str]]:
        return await self._operator.kept(space)

    async def keep(self, space: str, key: str, value: str) -> None:
        await self._operator.keep(space, key, value)

    async def forget(self, space: str, key: str) -> None:
        await self._operator.forget(space, key)


def kind_of(name: str, own: Iterable[str] = ()) -> str:
    """What a topic is for, by its name. `own` are the names of brokers and clusters: each has a topic of its name."""
    if name.startswith(RETRY):
        return model.RETRY
    if name.startswith(DEAD):
        return model.DEAD
    if name in _SYSTEM or name in own or name.startswith(_SYSTEM_STARTS) or name.endswith(_SYSTEM_ENDS):
        return model.SYSTEM
    return model.NORMAL


def permissions_of(bits: int) -> str:
    return ("r" if bits & READ else "") + ("w" if bits & WRITE else "")


def permission_bits(permissions: str) -> int:
    try:
        return _PERMISSIONS[permissions]
    except KeyError:
        raise NotPossible(f"permissions are one of {', '.join(_PERMISSIONS)}, not {permissions!r}") from None


def model_of(there: tables.Connections | None) -> str:
    if there is None:
        return ""
    return model.BROADCAST if there.message_model == "BROADCASTING" else model.CLUSTER


def settings_of(config: tables.GroupConfig) -> dict[str, object]:
    return {
        "consume": config.consume_enable,
        "broadcast": config.consume_broadcast_enable,
        "retry_queues": config.retry_queue_nums,
        "retries_max": config.retry_max_times,
    }


def address_in(message_id: str) -> tuple[str, int]:
    """The broker's address and the place in its log that an id names."""
    address_bytes = _OFFSET_ID_CHARS.get(len(message_id))
    try:
        raw = bytes.fromhex(message_id) if address_bytes else b""
    except ValueError:
        raw = b""
    if not address_bytes or not raw:
        raise NotThere(f"{message_id[:80]!r} is no message id: those have 32 or 56 hex digits")
    host, port = raw[:address_bytes], int.from_bytes(raw[address_bytes : address_bytes + 4])
    text = ".".join(map(str, host)) if address_bytes == 4 else _v6(host)
    return f"{text}:{port}", int.from_bytes(raw[address_bytes + 4 :])


def _v6(host: bytes) -> str:
    import ipaddress

    return f"[{ipaddress.IPv6Address(host)}]"


def _texts(queues: list[MessageQueue] | None) -> list[str] | None:
    return None if queues is None else [str(queue) for queue in queues]
