"""A range of a queue, pulled with several pulls under way.

Nothing has to be known of the broker: the first pull asks for much, and what comes back tells how much one brings
(megabytes from Penstock; from RocketMQ 32 messages, or 8 from its disk). Then the next ones are asked for before the
last have come, each for as many messages as one brings. A pull that brings less leaves a gap, which is asked for and
taken first; one that brings more makes those behind it void. So answers come in the order of their offsets, without
holes that the broker did not make and without overlaps.

With a filter one pull passes over nobody knows how many messages: then only one is under way.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from penstock import logs
from penstock.client.consumer.subscription import ALL
from penstock.client.errors import BrokerBusy, ClientError, Refused, TimedOut, Unreachable, refusal
from penstock.spark.link import Link, Links
from penstock.spark.ranges import Range
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame

log = logs.get(__name__)

TRIES = 8
RETRY_MS, RETRY_MS_MAX = 100, 5_000
_GROW_AFTER = 64  # full answers, then twice as much is tried


class Steps(msgspec.Struct, frozen=True):
    """How much is asked for."""

    messages_max: int = 100_000  # by one pull
    bytes_max: int = 2 << 20  # more costs the broker more per message: it is more than a socket takes at once
    under_way_max: int = 16
    under_way_bytes_max: int = 4 << 20


class Answer(NamedTuple):
    """The offsets that a pull has settled, and the records that came: valid until the next answer. At some offsets
    (`empty`) there may be no message, where Pulsar's clients have written too.
    """

    first: int
    until: int
    body: memoryview
    empty: int = 0


class Gone(NamedTuple):
    """Offsets that the queue does not have, or not any more."""

    first: int
    until: int
    why: str


class _Pull(NamedTuple):
    opaque: int
    first: int
    until: int


def answers(
    source: Range,
    links: Links,
    group: str,
    tags: str = ALL,
    steps: Steps | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[Answer | Gone]:
    """All of a range, in order. ClientError when the broker refuses, or cannot be reached for long."""
    puller = _Puller(source, links, group, tags, steps or Steps())
    failures = 0
    try:
        while puller.cursor < source.end:
            try:
                answer = puller.next()
            except (Unreachable, TimedOut, BrokerBusy) as error:
                failures += 1
                puller.disconnect()
                if failures == TRIES:
                    raise
                log.warning("a pull is tried again", range=str(source), error=str(error))
                wait(min(RETRY_MS * 2**failures, RETRY_MS_MAX) / 1000)
            else:
                failures = 0
                yield answer
    finally:
        puller.forget()


class _Puller:
    """`cursor` is behind what has been answered; what is under way lies between it and `_asked`."""

    def __init__(self, source: Range, links: Links, group: str, tags: str, steps: Steps) -> None:
        self._source, self._links, self._group, self._tags, self._steps = source, links, group, tags, steps
        self._under_way: deque[_Pull] = deque()
        self.cursor = self._asked = source.start
        self._step, self._answer_bytes = 0, 0  # not known before the first answer
        self._full = self._short = 0  # answers in a row with as much as was asked for, or less

    def disconnect(self) -> None:
        self._links.drop(self._source.address)
        self._under_way.clear()
        self._asked = self.cursor

    def forget(self) -> None:
        """What is under way is not waited for: others use the connection."""
        if self._under_way:
            self._drop_under_way(self._links.to(self._source.address))

    def next(self) -> Answer | Gone:
        """The next answer. What was under way is forgotten with the connection when there is none."""
        link = self._links.to(self._source.address)
        self._top_up(link)
        pull = self._under_way.popleft()
        frame = link.answer(pull.opaque)
        taken = _TAKEN.get(frame.code)
        if taken is None:
            raise _refused(frame, self._source)
        answer = taken(frame, pull, self._source)
        self._settle(link, pull, answer)
        return answer

    # --- how much -----------------------------------------------------------------------------------------------------

    def _top_up(self, link: Link) -> None:
        while self._asked < self._source.end and len(self._under_way) < self._window():
            until = min(self._asked + (self._step or self._steps.messages_max), self._source.end)
            self._under_way.append(self._pull(link, self._asked, until))
            self._asked = until

    def _window(self) -> int:
        if not self._step or self._tags != ALL:
            return 1
        return min(self._steps.under_way_max, max(2, self._steps.under_way_bytes_max // max(self._answer_bytes, 1)))

    def _settle(self, link: Link, pull: _Pull, answer: Answer | Gone) -> None:
        """What an answer means for those under way."""
        self.cursor = answer.until
        if isinstance(answer, Answer):
            self._learn(pull, answer)
        if answer.until < pull.until and self._under_way:
            self._under_way.appendleft(self._pull(link, answer.until, pull.until))
        elif answer.until != pull.until:
            self._drop_under_way(link)
            self._asked = answer.until

    def _drop_under_way(self, link: Link) -> None:
        for other in self._under_way:
            link.forget(other.opaque)
        self._under_way.clear()

    def _learn(self, pull: _Pull, answer: Answer) -> None:
        asked, got = pull.until - pull.first, answer.until - answer.first
        if got == asked < self._step:
            return  # the rest of one that was short
        self._answer_bytes = len(answer.body)
        if got < asked:
            self._short, self._full = self._short + 1, 0
            # One that is short and small tells nothing of the next: a queue may have a border just there.
            if not self._step or self._short > 1 or self._answer_bytes > self._steps.bytes_max // 2:
                self._step = max(got - got // 16, 1)
            return
        self._short, self._full = 0, self._full + 1
        if got > self._step:
            self._step = got
        elif self._full >= _GROW_AFTER and self._answer_bytes < self._steps.bytes_max // 2:
            self._step, self._full = min(self._step * 2, self._steps.messages_max), 0

    def _pull(self, link: Link, first: int, until: int) -> _Pull:
        source = self._source
        asked = {
            "consumerGroup": self._group,
            "topic": source.topic,
            "queueId": str(source.queue),
            "queueOffset": str(first),
            "maxMsgNums": str(until - first),
            "maxMsgBytes": str(self._steps.bytes_max),
            "asStored": "true",  # Penstock's own: also what Pulsar's producers have delayed
            "sysFlag": str(PullFlag.SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": self._tags,
            "subVersion": "0",
            "expressionType": "TAG",
            "bname": source.broker,
        }
        return _Pull(link.send(RequestCode.PULL_MESSAGE, asked), first, until)


# --- what answers say -------------------------------------------------------------------------------------------------


def _found(frame: Frame, pull: _Pull, source: Range) -> Answer:
    """Messages; or none of those that were looked at, because of the filter."""
    until = min(_next_offset(frame, source), source.end)
    if until <= pull.first:
        raise BrokerBusy(frame.code, f"the answer to a pull from {pull.first} does not go on", source.address)
    empty = frame.ext.get("emptyOffsets", "0")
    body = frame.body if frame.code == ResponseCode.SUCCESS else memoryview(b"")
    return Answer(pull.first, until, body, int(empty) if empty.isdecimal() else 0)


def _moved(frame: Frame, pull: _Pull, source: Range) -> Gone:
    """The offset is not in the queue: the queue begins behind it, or ends before it."""
    there = _next_offset(frame, source)
    if there > pull.first:
        return Gone(pull.first, min(there, source.end), f"the queue begins at offset {there} by now")
    return Gone(pull.first, source.end, f"the queue ends at offset {there}")


def _ended(frame: Frame, pull: _Pull, source: Range) -> Gone:
    return Gone(pull.first, source.end, f"the queue ends at offset {pull.first}")


_TAKEN: dict[int, Callable[[Frame, _Pull, Range], Answer | Gone]] = {
    ResponseCode.SUCCESS: _found,
    ResponseCode.PULL_RETRY_IMMEDIATELY: _found,
    ResponseCode.PULL_OFFSET_MOVED: _moved,
    ResponseCode.PULL_NOT_FOUND: _ended,
}


def _next_offset(frame: Frame, source: Range) -> int:
    try:
        return int(frame.ext["nextBeginOffset"])
    except (KeyError, ValueError):
        raise Refused(frame.code, "its answer to a pull does not say where to go on", source.address) from None


def _refused(frame: Frame, source: Range) -> ClientError:
    if frame.code == ResponseCode.FLOW_CONTROL:
        return BrokerBusy(frame.code, frame.remark, source.address)
    return refusal(frame, source.address)
