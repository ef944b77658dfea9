"""Heartbeats and what follows from them: membership of groups, the consumer list, producers, queue locks.

A heartbeat is always taken: a group in it that cannot be joined does not keep the others out, and is told of in the
log, once for each connection.
"""

from typing import NamedTuple

import msgspec

from penstock import logs
from penstock.clock import Clock
from penstock.core.groups import Group, Groups, Heartbeat, Subscription
from penstock.core.resets import Resets
from penstock.core.topics import Topics, TopicSettings
from penstock.errors import BadTopicName, PenstockError
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.filters import wanted
from penstock.gateway.rocketmq.groups import GroupRules
from penstock.gateway.rocketmq.house import BROKER
from penstock.gateway.rocketmq.produce import RETRY_PREFIX, check_rocketmq_name
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, body_as, ext_as
from penstock.model import Action
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.requests import Int64

log = logs.get(__name__)

GROUPS_MAX = 1_000  # that a connection is in: each brings a topic for retries into being
REASONS_MAX = 5  # that the log tells of one heartbeat
LOCK_EXPIRY_MS = 60_000
LOCKS_MAX = 100_000  # of all groups together


class _Subscription(msgspec.Struct, rename="camel"):
    topic: str
    sub_string: str = "*"
    expression_type: str | None = "TAG"
    sub_version: Int64 = 0


class _Check(msgspec.Struct, rename="camel"):
    subscription_data: _Subscription | None = None


class _Consumer(msgspec.Struct, rename="camel"):
    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[_Subscription] = []


class _Producer(msgspec.Struct, rename="camel"):
    group_name: str


class _Heartbeat(msgspec.Struct):
    clientID: str  # noqa: N815  # the wire's name
    consumerDataSet: list[_Consumer] = []  # noqa: N815
    producerDataSet: list[_Producer] = []  # noqa: N815


class _Unregister(msgspec.Struct):
    clientID: str = ""  # noqa: N815
    producerGroup: str | None = None  # noqa: N815
    consumerGroup: str | None = None  # noqa: N815


class _OfGroup(msgspec.Struct):
    consumerGroup: str  # noqa: N815


class _Queue(msgspec.Struct, frozen=True, rename="camel"):
    topic: str
    queue_id: int
    broker_name: str = BROKER


class _Lock(msgspec.Struct, rename="camel"):
    consumer_group: str
    client_id: str
    mq_set: list[_Queue] = []


class _Held(NamedTuple):
    """A queue's lock."""

    client_id: str
    since_ms: int


class Client(msgspec.Struct):
    """Who is at the other end of a connection, as its heartbeats say."""

    client_id: str
    language: str
    version: int
    seen_ms: int


class Members:
    def __init__(self, topics: Topics, groups: Groups, resets: Resets, clock: Clock, rules: GroupRules) -> None:
        self._topics, self._groups, self._resets, self._clock = topics, groups, resets, clock
        self._rules = rules
        self.producers: dict[str, dict[Connection, str]] = {}
        self._clients: dict[str, Connection] = {}  # producers by client id: whoever was heard last
        self._client_ids: dict[Connection, str] = {}
        self.facts: dict[Connection, Client] = {}
        self._warned: set[Connection] = set()
        self._locks: dict[tuple[str, str, int], _Held] = {}  # by group, topic and queue; the oldest first

    def routes(self) -> Routes:
        return {
            RequestCode.HEART_BEAT: Route(self.heart_beat, Action.LOOKUP, ""),
            RequestCode.UNREGISTER_CLIENT: Route(self.unregister, Action.LOOKUP, "consumerGroup"),
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: Route(self.consumer_list, Action.CONSUME, "consumerGroup"),
            RequestCode.CHECK_CLIENT_CONFIG: Route(self.check_client_config, Action.CONSUME, ""),
            RequestCode.LOCK_BATCH_MQ: Route(self.lock, Action.CONSUME, ""),
            RequestCode.UNLOCK_BATCH_MQ: Route(self.unlock, Action.CONSUME, ""),
        }

    def lost(self, connection: Connection) -> None:
        """A connection is gone: so are its memberships."""
        self.facts.pop(connection, None)
        self._warned.discard(connection)
        self._groups.lost(connection)
        self._resets.lost(connection)
        for name in [name for name, there in self.producers.items() if connection in there]:
            self._forget_producer(name, connection)
        self._forget_client(connection)

    def client(self, client_id: str) -> Connection | None:
        """The producer with a client id, if it is connected."""
        return self._clients.get(client_id)

    def _know_client(self, client_id: str, connection: Connection) -> None:
        if self._client_ids.get(connection) != client_id:
            self._forget_client(connection)
            self._client_ids[connection] = client_id
        self._clients[client_id] = connection

    def _forget_client(self, connection: Connection) -> None:
        client_id = self._client_ids.pop(connection, "")
        if self._clients.get(client_id) is connection:
            del self._clients[client_id]

    def _forget_producer(self, name: str, connection: Connection) -> None:
        there = self.producers.get(name, {})
        there.pop(connection, None)
        if not there:
            self.producers.pop(name, None)

    def producer_of(self, group: str) -> Connection | None:
        """Somebody of a producer group who is connected: each in turn."""
        there = self.producers.get(group, {})
        for connection in list(there):
            there[connection] = there.pop(connection)  # the next time it is another's turn
            if not connection.gone:
                return connection
        return None

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heart_beat(self, frame: Frame, connection: Connection) -> None:
        beat = body_as(_Heartbeat, frame)
        if beat.producerDataSet:
            self._know_client(beat.clientID, connection)
        self.facts[connection] = Client(beat.clientID, frame.language, frame.version, self._clock.now_ms())
        for producer in beat.producerDataSet[:GROUPS_MAX]:
            self.producers.setdefault(producer.group_name, {})[connection] = beat.clientID
        reasons: list[str] = []
        for consumer in beat.consumerDataSet:
            try:
                self._check_may_join(consumer.group_name, connection)
            except PenstockError as error:  # its pulls are told
                reasons.append(str(error))
                continue
            reasons += self._make_retry_topic(consumer.group_name)
            self._groups.heartbeat(connection, _heartbeat(beat.clientID, consumer, frame))
        if reasons:
            self._warn(connection, beat.clientID, reasons)
        connection.reply(frame, ResponseCode.SUCCESS)

    def _check_may_join(self, group: str, connection: Connection) -> None:
        """Raises when the group has to be set first, has a wrong name, or is one too many."""
        self._rules.of(group)
        try:
            check_rocketmq_name(RETRY_PREFIX + group)
        except BadTopicName as error:
            why = f"group {group!r} is left out, its retry topic would have a wrong name: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why) from None
        groups = self._groups.of_line(connection)
        if len(groups) >= GROUPS_MAX and group not in groups:
            why = f"group {group!r} is left out, its connection is in {GROUPS_MAX} groups already: use another one"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)

    def _make_retry_topic(self, group: str) -> list[str]:
        """Clients look for it as soon as they are in a group. What kept it from being made: a group can consume without
        it, and the next heartbeat tries again.
        """
        name, queues = RETRY_PREFIX + group, self._rules.of(group).retry_queues
        if queues and self._topics.find(name) is None:
            try:
                self._topics.create_now(name, TopicSettings(write_queues=queues))
            except PenstockError as error:
                return [f"group {group!r} has no retry topic: {error}"]
        return []

    def _warn(self, connection: Connection, client_id: str, reasons: list[str]) -> None:
        """Heartbeats come again and again: the first of a connection that has something wrong is told of."""
        if connection not in self._warned:
            self._warned.add(connection)
            log.warning(
                "a request was not done in full",
                client_id=client_id,
                address=connection.address,
                reasons=len(reasons),
                why="; ".join(reasons[:REASONS_MAX]),
            )

    def unregister(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_Unregister, frame)
        if asked.producerGroup:
            self._forget_producer(asked.producerGroup, connection)
        if asked.consumerGroup:
            self._groups.leave(connection, asked.consumerGroup)
        connection.reply(frame, ResponseCode.SUCCESS)

    def consumer_list(self, frame: Frame, connection: Connection) -> None:
        group = self.online(ext_as(_OfGroup, frame).consumerGroup)
        body = msgspec.json.encode({"consumerIdList": group.client_ids})
        connection.reply(frame, ResponseCode.SUCCESS, body=body)

    def online(self, name: str) -> Group:
        group = self._groups.find(name)
        if group is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer of group {name!r} is connected")
        return group

    def check_client_config(self, frame: Frame, connection: Connection) -> None:
        """Whether a filter can be used. Asked before a consumer starts, and only for filters that are not tags."""
        asked = body_as(_Check, frame).subscription_data
        if asked is not None:
            wanted(asked.expression_type, asked.sub_string)
        connection.reply(frame, ResponseCode.SUCCESS)

    # --- queue locks, for orderly consumers ---------------------------------------------------------------------------

    def lock(self, frame: Frame, connection: Connection) -> None:
        asked, now_ms = body_as(_Lock, frame), self._clock.monotonic_ms()
        self._expire_locks(now_ms)
        granted = [queue for queue in asked.mq_set if self._locked(asked, queue, now_ms)]
        if len(granted) < len(asked.mq_set) and len(self._locks) >= LOCKS_MAX:
            self._warn(connection, asked.client_id, [f"{LOCKS_MAX} queues are locked already, no more can be"])
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode({"lockOKMQSet": granted}))

    def _locked(self, asked: _Lock, queue: _Queue, now_ms: int) -> bool:
        """Whether the client has the queue from now on. Only queues that exist can be had."""
        key = (asked.consumer_group, queue.topic, queue.queue_id)
        held = self._locks.get(key)
        if held is not None and held.client_id != asked.client_id:
            return False
        if held is None and (len(self._locks) >= LOCKS_MAX or not self._exists(queue)):
            return False
        self._locks.pop(key, None)  # to stand behind all others
        self._locks[key] = _Held(asked.client_id, now_ms)
        return True

    def _exists(self, queue: _Queue) -> bool:
        topic = self._topics.find(queue.topic)
        return topic is not None and 0 <= queue.queue_id < topic.queue_count

    def _expire_locks(self, now_ms: int) -> None:
        while self._locks:
            key, held = next(iter(self._locks.items()))
            if now_ms - held.since_ms <= LOCK_EXPIRY_MS:
                return
            del self._locks[key]

    def unlock(self, frame: Frame, connection: Connection) -> None:
        asked = body_as(_Lock, frame)
        for queue in asked.mq_set:
            key = (asked.consumer_group, queue.topic, queue.queue_id)
            held = self._locks.get(key)
            if held is not None and held.client_id == asked.client_id:
                del self._locks[key]
        connection.reply(frame, ResponseCode.SUCCESS)


def _heartbeat(client_id: str, consumer: _Consumer, frame: Frame) -> Heartbeat:
    return Heartbeat(
        group=consumer.group_name,
        client_id=client_id,
        language=frame.language,
        client_version=frame.version,
        broadcast=consumer.message_model == "BROADCASTING",
        consume_type=consumer.consume_type,
        consume_from=consumer.consume_from_where,
        subscriptions=[
            Subscription(item.topic, item.sub_string, item.expression_type or "TAG", item.sub_version)
            for item in consumer.subscription_data_set
        ],
    )
