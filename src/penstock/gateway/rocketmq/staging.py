"""Staged messages: codes of Penstock's own (28001 to 28004), for writers that publish many messages as one, once.

`describe` tells a client that this broker can do it, and by which version; `stage` adds messages to a stage; `commit`
publishes stages, once under a key; `drop` forgets them. What a request holds is checked when it is staged, so that a
commit cannot fail for it. A message with a delay is staged as the timer that it becomes: the delay counts from the
commit.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from penstock.config import BrokerConfig
from penstock.core.authorizer import Authorizer
from penstock.core.staging import Staging
from penstock.core.topics import Topic, Topics
from penstock.core.traffic import Traffic
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.delay import Placer
from penstock.gateway.rocketmq.house import House
from penstock.gateway.rocketmq.produce import ADDED
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, body_as, ext_as, refuse
from penstock.model import Action, Entry
from penstock.wire.rocketmq import staged
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import FRAME_BYTES_MAX, Frame
from penstock.wire.rocketmq.record import Record, message_in
from penstock.wire.rocketmq.requests import Send
from penstock.wire.rocketmq.runs import PackedRun, StagedRun, run_of

RUN_BYTES_MAX = 1 << 20  # what the log takes in one go
PRODUCER = "penstock-staging"  # whom statistics name

TopicFor = Callable[[Send, int], Topic]  # the topic that a send of a client's version goes to; created if need be


class Stages:
    def __init__(
        self,
        staging: Staging,
        topics: Topics,
        topic_for: TopicFor,
        house: House,
        placer: Placer,
        authorizer: Authorizer,
        traffic: Traffic,
        config: BrokerConfig,
        entry_bytes_max: int,
    ) -> None:
        self._staging, self._topics, self._topic_for, self._house = staging, topics, topic_for, house
        self._placer, self._authorizer, self._traffic = placer, authorizer, traffic
        self._message_bytes_max = min(config.message_bytes_max, entry_bytes_max)
        self._run_bytes_max = min(RUN_BYTES_MAX, entry_bytes_max - self._message_bytes_max) or 1
        staging.appended.append(self._appended)

    def routes(self) -> Routes:
        return {
            RequestCode.GET_STAGING: Route(self.describe, Action.LOOKUP, ""),
            RequestCode.STAGE_MESSAGES: Route(self.stage, Action.PRODUCE, "topic"),
            RequestCode.COMMIT_STAGES: Route(self.commit, Action.LOOKUP, ""),  # each topic is asked for below
            RequestCode.DROP_STAGES: Route(self.drop, Action.LOOKUP, ""),
        }

    def describe(self, frame: Frame, connection: Connection) -> None:
        told = {
            "version": str(staged.VERSION),
            "messageBytesMax": str(self._message_bytes_max),
            "frameBytesMax": str(FRAME_BYTES_MAX),
        }
        connection.reply(frame, ResponseCode.SUCCESS, ext=told)

    def stage(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(staged.Stage, frame)
        _check_name(asked.stage)
        topic = self._topic_for(Send(topic=asked.topic, defaultTopicQueueNums=asked.queues), frame.version)
        expected = staged.Expected(
            topic=asked.topic.encode(),
            queues=topic.write_queues,
            born_host=connection.born_host,
            store_host=self._house.store_host_for(connection),
            added=ADDED.encode(),
            record_bytes_max=self._message_bytes_max,
            run_bytes_max=self._run_bytes_max,
        )
        try:
            runs = staged.runs_in(frame.body, expected)
        except staged.StagedError as error:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        entry_of = self._timers if asked.delayed else _placed
        self._staging.stage(asked.stage, [entry_of(run, topic) for run in runs], max(asked.part, 0))
        connection.reply(frame, ResponseCode.SUCCESS)

    def _timers(self, run: PackedRun, topic: Topic) -> Entry:
        """The messages of a run as timers, each with what it needs to find its own queue again."""
        payload, (starts, _, delays) = run.records(), run.spans()
        records: list[Record] = []
        for at, delay_ms in zip(starts.tolist(), delays.tolist(), strict=True):
            records.append(self._placer.timed(message_in(payload, at), topic, run.queue, delay_ms))
        return run_of_records(records)

    def commit(self, frame: Frame, connection: Connection) -> None:
        asked = body_as(staged.Commit, frame)
        for name in (asked.key, *asked.stages):
            _check_name(name)
        others = self._staging.names(asked.others) if asked.others else []
        self._check_allowed({*asked.stages, *others}, connection)

        def then(error: Exception | None, published: bool) -> None:
            if error is not None:
                refuse(connection, frame, error)
                return
            if asked.others:
                self._staging.drop_all(asked.others)
            connection.reply(frame, ResponseCode.SUCCESS, ext={"published": "true" if published else "false"})

        self._staging.commit(asked.key, asked.stages, then)

    def _check_allowed(self, stages: Iterable[str], connection: Connection) -> None:
        """Whoever publishes or drops messages has to be one who may send them."""
        queues = {queue for name in stages for queue in self._staging.queues(name)}
        for topic in {self._topics.owner(queue)[0].name for queue in queues if self._topics.has_queue(queue)}:
            self._authorizer.check(connection.who, Action.PRODUCE, topic)

    def drop(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(staged.Drop, frame)
        _check_name(asked.stages)
        self._check_allowed(self._staging.names(asked.stages), connection)
        self._staging.drop_all(asked.stages)
        connection.reply(frame, ResponseCode.SUCCESS)

    def _appended(self, entries: Sequence[Entry]) -> None:
        """A commit has appended these."""
        for entry in entries:
            if entry.queue == self._placer.timer_queue:
                self._placer.appended([entry])
            self._traffic.sent(PRODUCER, self._topics.owner(entry.queue)[0].name, entry.count, entry.length)


def _check_name(name: str) -> None:
    if not 0 < len(name) <= staged.NAME_CHARS_MAX:
        why = f"the name of a stage or of a commit has 1 to {staged.NAME_CHARS_MAX} characters, not {len(name)}"
        raise Refused(ResponseCode.SYSTEM_ERROR, why)


def _placed(run: PackedRun, topic: Topic) -> Entry:
    run.queue = topic.queues[run.queue]
    return run


def run_of_records(records: Sequence[Record]) -> StagedRun:
    """Records of one queue, written out. Their tags are their marks."""
    lengths = np.array([record.length for record in records], dtype=np.int64)
    marks = np.array([record.tag for record in records], dtype=np.int64)
    payload = memoryview(bytearray(int(lengths.sum())))
    at = 0
    for record in records:
        record.write_into(payload, at, record.queue, 0, 0)
        at += record.length
    return run_of(records[0].queue, payload, lengths, marks)
