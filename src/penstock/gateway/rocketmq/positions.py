"""Offsets: what a group has consumed, where queues begin and end, and which offset a time has."""

import msgspec

from penstock.core.fetch import Bounds, Fetcher
from penstock.core.offsets import Offsets
from penstock.core.readers import Readers
from penstock.core.resets import Resets
from penstock.core.topics import Topics
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.groups import GroupRules
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as
from penstock.model import Action
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.requests import Int64


class _Of(msgspec.Struct):
    consumerGroup: str  # noqa: N815  # the wire's names
    topic: str
    queueId: int  # noqa: N815
    commitOffset: Int64 = -1  # noqa: N815
    setZeroIfNotFound: bool = True  # noqa: N815


class _At(msgspec.Struct):
    topic: str
    queueId: int  # noqa: N815
    timestamp: int = 0
    boundaryType: str = "lower"  # noqa: N815


class Positions:
    def __init__(
        self,
        topics: Topics,
        fetcher: Fetcher,
        offsets: Offsets,
        resets: Resets,
        rules: GroupRules,
        readers: Readers,
        young_bytes: int,
    ) -> None:
        self._topics, self._fetcher, self._offsets, self._resets = topics, fetcher, offsets, resets
        self._rules, self._readers, self._young_bytes = rules, readers, young_bytes

    def routes(self) -> Routes:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: Route(self.query, Action.CONSUME, "topic"),
            RequestCode.UPDATE_CONSUMER_OFFSET: Route(self.update, Action.CONSUME, "topic"),
            RequestCode.GET_MAX_OFFSET: Route(self.maximum, Action.CONSUME, "topic"),
            RequestCode.GET_MIN_OFFSET: Route(self.minimum, Action.CONSUME, "topic"),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Route(self.by_time, Action.CONSUME, "topic"),
            RequestCode.GET_EARLIEST_MSG_STORETIME: Route(self.earliest_time, Action.CONSUME, "topic"),
        }

    def query(self, frame: Frame, connection: Connection) -> None:
        """Without a committed offset: 0 while the queue still begins there and is young, so that a new group on a new
        topic misses nothing.
        """
        asked = ext_as(_Of, frame)
        offset = self._offsets.find(asked.consumerGroup, asked.topic, asked.queueId)
        if offset < 0 and asked.setZeroIfNotFound and self._is_young(asked):
            offset = 0
        if offset < 0:
            why = f"group {asked.consumerGroup!r} has no offset in queue {asked.queueId} of topic {asked.topic!r}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, why)
        connection.reply(frame, ResponseCode.SUCCESS, ext={"offset": str(offset)})

    def _is_young(self, asked: _Of) -> bool:
        topic = self._topics.find(asked.topic)
        if topic is None or not 0 <= asked.queueId < topic.queue_count:
            return False
        queue = topic.queue(asked.queueId)
        grown_bytes = self._fetcher.log_bytes_since(queue, 0)
        return self._fetcher.bounds(queue).min_offset == 0 and grown_bytes <= self._young_bytes

    def update(self, frame: Frame, connection: Connection) -> None:
        """Only of what there is: an offset is kept for as long as its topic."""
        asked = ext_as(_Of, frame)
        self._rules.of(asked.consumerGroup)  # raises when there is no such group
        self._topics.get(asked.topic).queue(asked.queueId)  # or no such topic, or queue
        if self._resets.counts(asked.consumerGroup, asked.topic, asked.queueId, asked.commitOffset):
            self._offsets.commit(asked.consumerGroup, asked.topic, asked.queueId, asked.commitOffset)
        self._readers.at(asked.consumerGroup, asked.topic, asked.queueId, connection)
        connection.reply(frame, ResponseCode.SUCCESS)

    def _bounds(self, asked: _At) -> Bounds:
        return self._fetcher.bounds(self._topics.get(asked.topic).queue(asked.queueId))

    def maximum(self, frame: Frame, connection: Connection) -> None:
        bounds = self._bounds(ext_as(_At, frame))
        connection.reply(frame, ResponseCode.SUCCESS, ext={"offset": str(bounds.max_offset)})

    def minimum(self, frame: Frame, connection: Connection) -> None:
        bounds = self._bounds(ext_as(_At, frame))
        connection.reply(frame, ResponseCode.SUCCESS, ext={"offset": str(bounds.min_offset)})

    def by_time(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_At, frame)
        queue = self._topics.get(asked.topic).queue(asked.queueId)
        offset = self._fetcher.offset_at_time(queue, asked.timestamp)
        if asked.boundaryType.lower() == "upper":  # the last one at or before the time
            offset = max(self._fetcher.offset_at_time(queue, asked.timestamp + 1) - 1, self._bounds(asked).min_offset)
        connection.reply(frame, ResponseCode.SUCCESS, ext={"offset": str(offset)})

    def earliest_time(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_At, frame)
        time_ms = self._fetcher.earliest_ms(self._topics.get(asked.topic).queue(asked.queueId))
        connection.reply(frame, ResponseCode.SUCCESS, ext={"timestamp": str(time_ms)})
