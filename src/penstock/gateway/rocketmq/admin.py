"""What mqadmin and dashboards ask a broker: how full topics are, how far groups are, who is connected."""

import msgspec

from penstock.clock import Clock
from penstock.core.broker import Broker
from penstock.core.groups import Group
from penstock.core.topics import Topic, TopicSettings
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.groups import GroupRules
from penstock.gateway.rocketmq.house import BROKER, House
from penstock.gateway.rocketmq.later import Later
from penstock.gateway.rocketmq.members import Client, Members
from penstock.gateway.rocketmq.produce import check_rocketmq_name
from penstock.gateway.rocketmq.records import Records
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as
from penstock.model import Action
from penstock.wire.rocketmq.bodies import QueueName, with_table
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame


class _OfTopic(msgspec.Struct):
    topic: str


class _NewTopic(msgspec.Struct):
    topic: str
    readQueueNums: int  # noqa: N815  # the wire's names
    writeQueueNums: int  # noqa: N815
    perm: int = 6


class _OfConsumers(msgspec.Struct):
    consumerGroup: str  # noqa: N815
    topic: str | None = None


class _OfProducers(msgspec.Struct):
    producerGroup: str  # noqa: N815


class _ById(msgspec.Struct):
    offset: int


class _Clone(msgspec.Struct):
    srcGroup: str  # noqa: N815
    destGroup: str  # noqa: N815
    topic: str | None = None


class Admin:
    def __init__(
        self, broker: Broker, members: Members, house: House, clock: Clock, records: Records, rules: GroupRules
    ) -> None:
        self._topics, self._fetcher, self._groups = broker.topics, broker.fetcher, broker.groups
        self._offsets, self._readers = broker.offsets, broker.readers
        self._minutes, self._traffic = broker.minutes, broker.traffic
        self._members, self._house, self._records, self._rules = members, house, records, rules
        self._clock, self._later = clock, Later()

    def routes(self) -> Routes:
        monitor, admin = Action.MONITOR, Action.ADMIN
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: Route(self.update_topic, admin),
            RequestCode.DELETE_TOPIC_IN_BROKER: Route(self.delete_topic, admin),
            RequestCode.DELETE_TOPIC_IN_NAMESRV: Route(self.nothing_to_do, admin),
            RequestCode.GET_ALL_TOPIC_CONFIG: Route(self.all_topics, monitor, ""),
            RequestCode.GET_TOPIC_CONFIG: Route(self.one_topic, monitor),
            RequestCode.GET_TOPIC_STATS_INFO: Route(self.topic_stats, monitor),
            RequestCode.GET_CONSUMER_CONNECTION_LIST: Route(self.consumers, monitor, "consumerGroup"),
            RequestCode.GET_PRODUCER_CONNECTION_LIST: Route(self.producers, monitor, "producerGroup"),
            RequestCode.GET_ALL_PRODUCER_INFO: Route(self.all_producers, monitor, ""),
            RequestCode.GET_BROKER_CONSUME_STATS: Route(self.all_consume_stats, monitor, ""),
            RequestCode.CLONE_GROUP_OFFSET: Route(self.clone_offsets, admin, "destGroup"),
            RequestCode.GET_CONSUME_STATS: Route(self.consume_stats, monitor, "consumerGroup"),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Route(self.groups_of_topic, monitor),
            RequestCode.VIEW_MESSAGE_BY_ID: Route(self.message_by_id, monitor, ""),
        }

    # --- topics -------------------------------------------------------------------------------------------------------

    def update_topic(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_NewTopic, frame)
        check_rocketmq_name(asked.topic)
        settings = TopicSettings(
            read_queues=asked.readQueueNums, write_queues=asked.writeQueueNums, permissions=asked.perm & 6
        )
        self._later(frame, connection, self._updated(asked.topic, settings))

    async def _updated(self, name: str, settings: TopicSettings) -> bytes:
        if self._topics.find(name) is None:
            await self._topics.create(name, settings)
        else:
            await self._topics.alter(name, settings)
        return b""

    def delete_topic(self, frame: Frame, connection: Connection) -> None:
        self._later(frame, connection, self._deleted(ext_as(_OfTopic, frame).topic))

    async def _deleted(self, name: str) -> bytes:
        if self._topics.find(name) is not None:  # the real broker does not mind either
            await self._topics.delete(name)
        return b""

    def nothing_to_do(self, frame: Frame, connection: Connection) -> None:
        """The name server is this broker: what was told to the one is known to the other."""
        connection.reply(frame, ResponseCode.SUCCESS)

    def all_topics(self, frame: Frame, connection: Connection) -> None:
        configs = {topic.name: _config_of(topic) for topic in self._topics}
        body = {"dataVersion": {"counter": 0, "timestamp": 0}, "topicConfigTable": configs}
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(body))

    def one_topic(self, frame: Frame, connection: Connection) -> None:
        body = _config_of(self._topics.get(ext_as(_OfTopic, frame).topic))
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(body))

    def topic_stats(self, frame: Frame, connection: Connection) -> None:
        topic = self._topics.get(ext_as(_OfTopic, frame).topic)
        pairs = []
        for index in range(topic.queue_count):
            bounds, last_ms = self._fetcher.bounds(topic.queue(index)), self._fetcher.latest_ms(topic.queue(index))
            stats = {"lastUpdateTimestamp": last_ms, "maxOffset": bounds.max_offset, "minOffset": bounds.min_offset}
            pairs.append((QueueName(BROKER, index, topic.name), stats))
        put_tps = round(self._minutes.published(topic.name).minute.messages / 60, 2)
        connection.reply(frame, ResponseCode.SUCCESS, body=with_table("offsetTable", pairs, topicPutTps=put_tps))

    def groups_of_topic(self, frame: Frame, connection: Connection) -> None:
        name = ext_as(_OfTopic, frame).topic
        online = {group.name for group in self._groups if name in group.subscriptions}
        body = {"groupList": sorted(online | set(self._offsets.groups_of(name)))}
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(body))

    def message_by_id(self, frame: Frame, connection: Connection) -> None:
        self._later(frame, connection, self._records.at(ext_as(_ById, frame).offset))

    # --- groups -------------------------------------------------------------------------------------------------------

    def consume_stats(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_OfConsumers, frame)
        names = [asked.topic] if asked.topic else self._topics_of(asked.consumerGroup)
        body, _ = self._stats_of(asked.consumerGroup, names)
        connection.reply(frame, ResponseCode.SUCCESS, body=body)

    def all_consume_stats(self, frame: Frame, connection: Connection) -> None:
        """How far all groups are that have consumed anything."""
        parts, behind = [], 0
        for group in self._offsets.all_groups():
            stats = [self._stats_of(group, [name]) for name in self._topics_of(group)]
            parts.append(b"{%b:[%b]}" % (msgspec.json.encode(group), b",".join(body for body, _ in stats)))
            behind += sum(part for _, part in stats)
        head = msgspec.json.encode({"brokerAddr": self._house.address_for(connection), "totalDiff": behind})
        body = b'%b,"consumeStatsList":[%b]}' % (head[:-1], b",".join(parts))
        connection.reply(frame, ResponseCode.SUCCESS, body=body)

    def _topics_of(self, name: str) -> list[str]:
        """What a group consumes: while it is online what it subscribes to, otherwise where it has been."""
        group, been = self._groups.find(name), self._offsets.topics_of(name)
        if group is None or not group.subscriptions:  # who pulls from chosen queues may subscribe to nothing
            return been
        return [topic for topic in been if topic in group.subscriptions] if group.broadcast else [*group.subscriptions]

    def _stats_of(self, group: str, names: list[str]) -> tuple[bytes, int]:
        """As a body, and how many messages it is behind."""
        pairs, behind, now_ms = [], 0, self._clock.now_ms()
        for name in sorted(names):
            topic = self._topics.find(name)
            if topic is None:
                continue
            for index in range(topic.read_queues):
                stats = self._stats(group, topic, index)
                pairs.append((QueueName(BROKER, index, name), stats))
                behind += stats["brokerOffset"] - stats["consumerOffset"]
        went = self._traffic.consumed.sums(now_ms, lambda pair: pair[0] == group and pair[1] in names)
        return with_table("offsetTable", pairs, consumeTps=round(went.minute.messages / 60, 2)), behind

    def _stats(self, group: str, topic: Topic, index: int) -> dict[str, int]:
        bounds = self._fetcher.bounds(topic.queue(index))
        offset = max(self._offsets.find(group, topic.name, index), 0)
        return {
            "brokerOffset": bounds.max_offset,
            "consumerOffset": offset,
            "lastTimestamp": max(self._fetcher.time_ms_of(topic.queue(index), offset - 1), 0),
            "pullOffset": max(offset, self._readers.of(group, topic.name, index).asked),  # handed out up to here
        }

    def clone_offsets(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_Clone, frame)
        self._rules.of(asked.destGroup)  # raises when there is no such group
        for name in [asked.topic] if asked.topic else self._offsets.topics_of(asked.srcGroup):
            for queue, offset in self._offsets.of(asked.srcGroup, name).items():
                self._offsets.commit(asked.destGroup, name, queue, offset)
        connection.reply(frame, ResponseCode.SUCCESS)

    def consumers(self, frame: Frame, connection: Connection) -> None:
        name = ext_as(_OfConsumers, frame).consumerGroup
        group = self._groups.find(name)
        if group is None:
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"no consumer of group {name!r} is connected")
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(_connections_of(group)))

    def producers(self, frame: Frame, connection: Connection) -> None:
        name = ext_as(_OfProducers, frame).producerGroup
        there = self._members.producers.get(name)
        if not there:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no producer of group {name!r} is connected")
        found = [_connection_of(line, self._members.facts[line]) for line in there]
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode({"connectionSet": found}))

    def all_producers(self, frame: Frame, connection: Connection) -> None:
        found = {
            group: [_producer_of(line, self._members.facts[line]) for line in there]
            for group, there in self._members.producers.items()
        }
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode({"data": found}))


def _connection_of(line: Connection, client: Client) -> dict[str, object]:
    return {
        "clientAddr": line.address,
        "clientId": client.client_id,
        "language": client.language,
        "version": client.version,
    }


def _producer_of(line: Connection, client: Client) -> dict[str, object]:
    return {
        "clientId": client.client_id,
        "remoteIP": line.address,
        "language": client.language,
        "version": client.version,
        "lastUpdateTimestamp": client.seen_ms,
    }


def _config_of(topic: Topic) -> dict[str, object]:
    return {
        "attributes": {},
        "order": False,
        "perm": topic.permissions,
        "readQueueNums": topic.read_queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic.name,
        "topicSysFlag": 0,
        "writeQueueNums": topic.write_queues,
    }


def _connections_of(group: Group) -> dict[str, object]:
    found = [
        {
            "clientAddr": line.address,
            "clientId": member.client_id,
            "language": member.language,
            "version": member.version,
        }
        for line, member in group.members.items()
    ]
    subscriptions = {
        topic: {
            "classFilterMode": False,
            "codeSet": [],
            "expressionType": known.kind,
            "subString": known.expression,
            "subVersion": known.version,
            "tagsSet": [],
            "topic": topic,
        }
        for topic, known in group.subscriptions.items()
    }
    return {
        "connectionSet": found,
        "consumeFromWhere": group.consume_from,
        "consumeType": group.consume_type,
        "messageModel": "BROADCASTING" if group.broadcast else "CLUSTERING",
        "subscriptionTable": subscriptions,
    }
