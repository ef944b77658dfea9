"""What mqadmin and dashboards ask a broker: how full topics are, how far groups are, who is connected."""

import msgspec

from penstock import __version__
from penstock.core.fetch import Fetcher
from penstock.core.groups import Group, Groups
from penstock.core.offsets import Offsets
from penstock.core.topics import Topic, Topics, TopicSettings
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.house import BROKER, CLUSTER
from penstock.gateway.rocketmq.later import Later
from penstock.gateway.rocketmq.members import Members
from penstock.gateway.rocketmq.produce import check_rocketmq_name
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as
from penstock.model import Action
from penstock.wire.rocketmq.bodies import QueueName, with_table
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import from_physical

RUNTIME_ZEROS = """sendThreadPoolQueueSize pullThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills
pullThreadPoolQueueHeadWaitTimeMills pageCacheLockTimeMills earliestMessageTimeStamp commitLogDiskRatio
msgPutTotalYesterdayMorning msgPutTotalTodayMorning msgGetTotalYesterdayMorning msgGetTotalTodayMorning
msgGetTotalTodayNow"""  # what the tools want to see in the runtime info, and this broker has no use for


RELAY_TIMEOUT_MS = 8_000


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


class _OfConsumer(msgspec.Struct):
    consumerGroup: str  # noqa: N815
    clientId: str  # noqa: N815


class Admin:
    def __init__(
        self,
        topics: Topics,
        fetcher: Fetcher,
        groups: Groups,
        offsets: Offsets,
        members: Members,
        boot_ms: int,
    ) -> None:
        self._topics, self._fetcher, self._groups = topics, fetcher, groups
        self._offsets, self._members, self._boot_ms, self._later = offsets, members, boot_ms, Later()

    def routes(self) -> Routes:
        monitor, admin = Action.MONITOR, Action.ADMIN
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: Route(self.update_topic, admin),
            RequestCode.DELETE_TOPIC_IN_BROKER: Route(self.delete_topic, admin),
            RequestCode.DELETE_TOPIC_IN_NAMESRV: Route(self.nothing_to_do, admin),
            RequestCode.GET_CONSUMER_RUNNING_INFO: Route(self.running_info, monitor, "consumerGroup"),
            RequestCode.GET_ALL_TOPIC_CONFIG: Route(self.all_topics, monitor, ""),
            RequestCode.GET_TOPIC_CONFIG: Route(self.one_topic, monitor),
            RequestCode.GET_TOPIC_STATS_INFO: Route(self.topic_stats, monitor),
            RequestCode.GET_BROKER_CONFIG: Route(self.broker_config, monitor, ""),
            RequestCode.GET_BROKER_RUNTIME_INFO: Route(self.runtime_info, monitor, ""),
            RequestCode.GET_CONSUMER_CONNECTION_LIST: Route(self.consumers, monitor, "consumerGroup"),
            RequestCode.GET_PRODUCER_CONNECTION_LIST: Route(self.producers, monitor, "producerGroup"),
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
            self._offsets.forget_topic(name)
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
        connection.reply(frame, ResponseCode.SUCCESS, body=with_table("offsetTable", pairs, topicPutTps=0.0))

    def groups_of_topic(self, frame: Frame, connection: Connection) -> None:
        name = ext_as(_OfTopic, frame).topic
        online = {group.name for group in self._groups if name in group.subscriptions}
        body = {"groupList": sorted(online | set(self._offsets.groups_of(name)))}
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(body))

    def message_by_id(self, frame: Frame, connection: Connection) -> None:
        queue, offset = from_physical(ext_as(_ById, frame).offset)
        self._later(frame, connection, self._message(queue, offset))

    async def _message(self, queue: int, offset: int) -> bytes:
        batch = await self._fetcher.fetch(queue, offset, 1, 1)
        if not batch.payloads or int(batch.rows["base"][0]) != offset:
            raise Refused(ResponseCode.SYSTEM_ERROR, "there is no message with this id: it may have expired")
        return bytes(batch.payloads[0])

    # --- groups -------------------------------------------------------------------------------------------------------

    def consume_stats(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_OfConsumers, frame)
        group = self._groups.find(asked.consumerGroup)
        topics = set(self._offsets.topics_of(asked.consumerGroup)) | set(group.subscriptions if group else ())
        pairs = []
        for name in sorted({asked.topic} if asked.topic else topics):
            topic = self._topics.find(name)
            if topic is not None:
                pairs += [self._stats(asked.consumerGroup, topic, index) for index in range(topic.read_queues)]
        connection.reply(frame, ResponseCode.SUCCESS, body=with_table("offsetTable", pairs, consumeTps=0.0))

    def _stats(self, group: str, topic: Topic, index: int) -> tuple[QueueName, object]:
        bounds = self._fetcher.bounds(topic.queue(index))
        offset = max(self._offsets.find(group, topic.name, index), 0)
        last_ms = self._fetcher.time_ms_of(topic.queue(index), offset - 1)
        stats = {
            "brokerOffset": bounds.max_offset,
            "consumerOffset": offset,
            "lastTimestamp": last_ms,
            "pullOffset": offset,
        }
        return QueueName(BROKER, index, topic.name), stats

    def running_info(self, frame: Frame, connection: Connection) -> None:
        """What a consumer says of itself, passed on byte for byte."""
        asked = ext_as(_OfConsumer, frame)
        group = self._groups.find(asked.consumerGroup)
        for line, member in group.members.items() if group else ():
            if member.client_id == asked.clientId and isinstance(line, Connection):
                self._later(frame, connection, self._asked(line, frame))
                return
        why = f"no consumer {asked.clientId!r} of group {asked.consumerGroup!r} is connected"
        raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, why)

    async def _asked(self, line: Connection, frame: Frame) -> bytes:
        try:
            answer = await line.ask(frame.code, frame.ext, timeout_ms=RELAY_TIMEOUT_MS)
        except (TimeoutError, ConnectionError):
            why = f"{line.address} did not answer in {RELAY_TIMEOUT_MS // 1000} seconds"
            raise Refused(ResponseCode.CONSUME_MSG_TIMEOUT, why) from None
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{line.address} answered {answer.code}: {answer.remark}")
        return bytes(answer.body)

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
        found = [
            {"clientAddr": line.address, "clientId": client_id, "language": "JAVA", "version": 0}
            for line, client_id in there.items()
        ]
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode({"connectionSet": found}))

    # --- the broker ---------------------------------------------------------------------------------------------------

    def broker_config(self, frame: Frame, connection: Connection) -> None:
        lines = {"brokerName": BROKER, "brokerClusterName": CLUSTER, "brokerId": "0", "brokerRole": "ASYNC_MASTER"}
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        ext = {"version": '{"counter":0,"timestamp":0}'}
        connection.reply(frame, ResponseCode.SUCCESS, ext=ext, body=text.encode())

    def runtime_info(self, frame: Frame, connection: Connection) -> None:
        published = sum(self._fetcher.bounds(queue).max_offset for topic in self._topics for queue in topic.queues)
        table = dict.fromkeys(RUNTIME_ZEROS.split(), "0")
        table |= {"brokerVersionDesc": f"penstock {__version__}", "brokerVersion": "409", "putTps": "0.0 0.0 0.0"}
        table["bootTimestamp"] = str(self._boot_ms)
        table |= {"getTransferedTps": "0.0 0.0 0.0", "msgPutTotalTodayNow": str(published)}
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode({"table": table}))


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
