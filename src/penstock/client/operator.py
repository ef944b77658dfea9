"""What operators ask of a cluster and tell it: topics, groups, members, offsets, messages. One method is one question.

It goes to the brokers that know: to all masters of the cluster, or to those of a topic. What they say is put together
and nothing is decided here; `penstock.admin` has the commands that people give.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Self, TypeVar

import msgspec

from penstock.client import tables
from penstock.client.cluster import name_servers
from penstock.client.errors import ClientError, NotFound, Refused, Unreachable, refusal
from penstock.client.identity import fresh_client_id
from penstock.client.instance import Instance, Timers
from penstock.client.link import Dial, Ext
from penstock.client.message import Received, received
from penstock.client.routes import MASTER, MessageQueue
from penstock.clock import Clock
from penstock.errors import StoreError
from penstock.wire.rocketmq import fastjson
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import messages_in
from penstock.wire.rocketmq.requests import DEFAULT_TOPIC

TIMERS = Timers(request_timeout_ms=5_000)
ASK_CLIENT_MS = 5_000  # a broker that asks a client waits ten seconds at most; one that is silent has no answer
LATEST_MS = (1 << 63) - 1
FOUND_MAX = 64
RETRY, DEAD = "%RETRY%", "%DLQ%"

T = TypeVar("T")


class Operator:
    def __init__(
        self, servers: str, clock: Clock | None = None, timers: Timers = TIMERS, dial: Dial | None = None
    ) -> None:
        self._servers = name_servers(servers)
        self.instance = Instance(servers, fresh_client_id(), clock, timers, dial)
        self.cluster = self.instance.cluster

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.instance.close()

    # --- brokers ------------------------------------------------------------------------------------------------------

    async def brokers(self) -> tables.ClusterInfo:
        answer = await self.cluster.ask_names(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        return _read(answer, ";".join(self._servers), lambda body: _as(tables.ClusterInfo, body))

    async def masters(self) -> dict[str, str]:
        """Addresses by broker."""
        found = (await self.brokers()).broker_addr_table
        return {name: data.broker_addrs[MASTER] for name, data in sorted(found.items()) if MASTER in data.broker_addrs}

    async def masters_of(self, topic: str) -> dict[str, str]:
        """Of the brokers that have a topic; where a master is gone, a slave speaks for it."""
        route = await self.cluster.fetch(topic)
        return {data.broker_name: self.cluster.address(data.broker_name) for data in route.queue_datas}

    async def runtime(self, address: str) -> dict[str, str]:
        answer = await self.cluster.get(address, RequestCode.GET_BROKER_RUNTIME_INFO, {})
        found = _read(answer, address, lambda body: fastjson.table(fastjson.loads(body), "table"))
        return {name: str(value) for name, value in found.items()}

    async def settings(self, address: str) -> dict[str, str]:
        answer = await self.cluster.get(address, RequestCode.GET_BROKER_CONFIG, {})
        lines = (line.partition("=") for line in bytes(answer.body).decode(errors="replace").splitlines())
        return {name.strip(): value.strip() for name, _, value in lines}

    # --- topics -------------------------------------------------------------------------------------------------------

    async def topic_names(self) -> list[str]:
        answer = await self.cluster.ask_names(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})
        if answer.code != ResponseCode.SUCCESS:
            raise refusal(answer, ";".join(self._servers))
        return sorted(_read(answer, self._servers[0], lambda body: _names(body, "topicList")))

    async def topic_configs(self) -> dict[str, dict[str, tables.TopicConfig]]:
        """By broker, then by topic."""
        masters = await self.masters()
        answers = await self._all(masters.values(), RequestCode.GET_ALL_TOPIC_CONFIG, {})
        kind = dict[str, tables.TopicConfig]

        def read(body: memoryview) -> dict[str, tables.TopicConfig]:
            return msgspec.convert(fastjson.table(fastjson.loads(body), "topicConfigTable"), kind, strict=False)

        return {name: _read(answers[address], address, read) for name, address in masters.items()}

    async def put_topic(self, address: str, config: tables.TopicConfig) -> None:
        ext = {
            "topic": config.topic_name,
            "defaultTopic": DEFAULT_TOPIC,
            "readQueueNums": str(config.read_queue_nums),
            "writeQueueNums": str(config.write_queue_nums),
            "perm": str(config.perm),
            "topicFilterType": config.topic_filter_type,
            "topicSysFlag": str(config.topic_sys_flag),
            "order": "true" if config.order else "false",
        }
        await self.cluster.get(address, RequestCode.UPDATE_AND_CREATE_TOPIC, ext)

    async def delete_topic(self, topic: str) -> None:
        """On all brokers, then at all name servers."""
        info = await self.brokers()
        await self._all((await self.masters()).values(), RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        for server in self._servers:
            for cluster in info.cluster_addr_table:
                ext = {"topic": topic, "clusterName": cluster}
                await self.cluster.get(server, RequestCode.DELETE_TOPIC_IN_NAMESRV, ext)
        self.cluster.forget(topic)

    async def topic_stats(self, topic: str) -> dict[MessageQueue, tables.QueueStats]:
        answers = await self._of_topic(topic, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
        return _merged(answers, tables.topic_stats_in)

    async def groups_of(self, topic: str) -> list[str]:
        answers = await self._of_topic(topic, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
        found = (_read(answer, address, lambda body: _names(body, "groupList")) for address, answer in answers.items())
        return sorted({group for groups in found for group in groups})

    # --- groups -------------------------------------------------------------------------------------------------------

    async def group_configs(self) -> dict[str, tables.GroupConfig]:
        answers = await self._all((await self.masters()).values(), RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {})
        kind = dict[str, tables.GroupConfig]
        return _merged(
            answers,
            lambda body: msgspec.convert(
                fastjson.table(fastjson.loads(body), "subscriptionGroupTable"), kind, strict=False
            ),
        )

    async def delete_group(self, group: str) -> None:
        """Its settings and its offsets, on all brokers."""
        ext = {"groupName": group, "removeOffset": "true", "cleanOffset": "true"}  # the first was its name before 5.0
        await self._all((await self.masters()).values(), RequestCode.DELETE_SUBSCRIPTIONGROUP, ext)

    async def connections(self, group: str) -> tables.Connections | None:
        """Who is online; None when nobody is. Each member is connected to every broker, and counts once."""
        masters = (await self.masters()).values()
        ext = {"consumerGroup": group}
        asked = [self.cluster.ask(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, ext) for address in masters]
        found = None
        for address, answer in zip(masters, await asyncio.gather(*asked), strict=True):
            if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
                continue
            if answer.code != ResponseCode.SUCCESS:
                raise refusal(answer, address)
            there = _read(answer, address, lambda body: _as(tables.Connections, body))
            if found is None or len(there.connection_set) > len(found.connection_set):
                found = there
        return found

    async def group_stats(self, group: str, topic: str = "") -> dict[MessageQueue, tables.GroupStats]:
        """How far a group is, in one topic or in all that it consumes. A queue without an offset stands at 0."""
        ext = {"consumerGroup": group} | ({"topic": topic} if topic else {})
        answers = await self._all((await self.masters()).values(), RequestCode.GET_CONSUME_STATS, ext)
        return _merged(answers, tables.group_stats_in)

    async def owned(self, group: str, client_id: str) -> list[MessageQueue] | None:
        """The queues that a member says it has; None when it does not answer. Any broker can ask it."""
        ext = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "false"}
        for address in (await self.masters()).values():
            try:
                code = RequestCode.GET_CONSUMER_RUNNING_INFO
                answer = await self.cluster.get(address, code, ext, b"", ASK_CLIENT_MS)
                return tables.owned_in(answer.body) if answer.body else None
            except (ClientError, fastjson.FastjsonError, ValueError):
                continue
        return None

    async def client_offsets(self, group: str, topic: str) -> tables.ClientOffsets:
        """How far each instance says it is: what counts in a broadcast group."""
        found = tables.ClientOffsets()
        for address in (await self.masters_of(topic)).values():
            code, ext = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": topic, "group": group}
            answer = await self.cluster.ask(address, code, ext, b"", ASK_CLIENT_MS)
            if answer.code != ResponseCode.SUCCESS:
                continue
            there = _read(answer, address, tables.client_offsets_in)
            for client, offsets in there.offsets.items():
                found.offsets[client] = {**found.offsets.get(client, {}), **offsets}
            found.reset = there.reset or found.reset
            found.broadcast = there.broadcast or found.broadcast
        return found

    async def reset(
        self, address: str, group: str, topic: str, time_ms: int = -1, queue: int = -1, offset: int = -1, by: str = ""
    ) -> dict[MessageQueue, int]:
        """Reset one broker's queues to a time (-1: to their ends), or one of them to an offset; what it has set. `by`
        is who wants it: Penstock puts it on record.
        """
        ext = {"group": group, "topic": topic, "timestamp": str(time_ms), "isForce": "true"}
        ext |= {"by": by} if by else {}
        if queue >= 0:
            ext |= {"queueId": str(queue), "offset": str(offset)}
        answer = await self.cluster.get(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)
        return _read(answer, address, tables.offsets_in)

    # --- what tools keep at the name servers --------------------------------------------------------------------------

    async def kept(self, space: str) -> dict[str, list[str]]:
        """What each key stands for; several values where name servers disagree: one was away when it was changed."""
        kept: dict[str, list[str]] = {}
        for server, answer in await self._at_all(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": space}):
            if answer.code != ResponseCode.SUCCESS:  # there is none
                continue
            found = _read(answer, server, lambda body: fastjson.table(fastjson.loads(body), "table"))
            for key, value in found.items():
                values = kept.setdefault(str(key), [])
                if str(value) not in values:
                    values.append(str(value))
        return kept

    async def keep(self, space: str, key: str, value: str) -> None:
        """At all that can be reached."""
        await self._at_all(RequestCode.PUT_KV_CONFIG, {"namespace": space, "key": key, "value": value})

    async def forget(self, space: str, key: str) -> None:
        await self._at_all(RequestCode.DELETE_KV_CONFIG, {"namespace": space, "key": key})

    async def _at_all(self, code: int, ext: Ext) -> list[tuple[str, Frame]]:
        """The answers of all name servers that can be reached: they do not tell each other. One has to be."""
        found, failures = [], []
        for server in self._servers:
            try:
                answer = await self.cluster.ask(server, code, ext)
            except Unreachable as error:
                failures.append(error)
                continue
            if answer.code not in (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND):
                raise refusal(answer, server)
            found.append((server, answer))
        if not found:
            raise failures[0]
        return found

    # --- messages -----------------------------------------------------------------------------------------------------

    async def message_at(self, address: str, physical_offset: int, topic: str = "") -> Received | None:
        ext = {"offset": str(physical_offset)} | ({"topic": topic} if topic else {})
        answer = await self.cluster.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, ext)
        if answer.code == ResponseCode.SYSTEM_ERROR:  # all that brokers say when it is not there
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise refusal(answer, address)
        return next(iter(await self._received({address: answer})), None)

    async def find(self, topic: str, key: str, unique: bool) -> list[Received]:
        """Messages with a key, or with the unique key that their producer gave them; the newest 64."""
        ext = {"topic": topic, "key": key, "maxNum": str(FOUND_MAX), "beginTimestamp": "0"}
        ext |= {"endTimestamp": str(LATEST_MS), "_UNIQUE_KEY_QUERY": "true" if unique else "false"}
        answers = {}
        for address in (await self.masters_of(topic)).values():
            try:
                answers[address] = await self.cluster.get(address, RequestCode.QUERY_MESSAGE, ext)
            except NotFound:
                continue
        found = await self._received(answers)
        return [message for message in found if _has(message, key, unique)]

    async def _received(self, answers: Mapping[str, Frame]) -> list[Received]:
        names = {address: name for name, address in (await self.masters()).items()}
        found = []
        for address, answer in answers.items():
            for record in _read(answer, address, messages_in):
                queue = MessageQueue(record.topic, names.get(address, address), record.queue_index)
                found.append(received(record, queue))
        return found

    # --- asking several -----------------------------------------------------------------------------------------------

    async def _of_topic(self, topic: str, code: int, ext: Ext) -> dict[str, Frame]:
        return await self._all((await self.masters_of(topic)).values(), code, ext)

    async def _all(self, addresses: Iterable[str], code: int, ext: Ext) -> dict[str, Frame]:
        """The answers by address; an error of any is raised."""
        asked = list(addresses)
        answers = await asyncio.gather(*(self.cluster.get(address, code, ext) for address in asked))
        return dict(zip(asked, answers, strict=True))


def _has(message: Received, key: str, unique: bool) -> bool:
    """Brokers search by hashes: others may be among what they find."""
    return message.message_id == key if unique else key in message.keys.split(" ")


def _read(answer: Frame, address: str, read: Callable[[memoryview], T]) -> T:
    try:
        return read(answer.body)
    except (fastjson.FastjsonError, msgspec.ValidationError, StoreError, ValueError, TypeError) as error:
        raise Refused(answer.code, f"its answer cannot be read: {error}", address) from None


def _as(kind: type[T], body: memoryview) -> T:
    return msgspec.convert(fastjson.loads(body), kind, strict=False)


def _names(body: memoryview, field: str) -> list[str]:
    found = fastjson.loads(body)
    names = found.get(field) if isinstance(found, dict) else None
    return [str(name) for name in names or ()]


K = TypeVar("K")
V = TypeVar("V")


def _merged(answers: Mapping[str, Frame], read: Callable[[memoryview], dict[K, V]]) -> dict[K, V]:
    found: dict[K, V] = {}
    for address, answer in answers.items():
        found |= _read(answer, address, read)
    return found
