"""Requests to one broker, several under way at a time, asked again over a new connection when one breaks.

What is asked has to bear being asked twice: with staging a second request is known by its number, with plain sends it
is a duplicate, which is what "at least once" means. A broker that is too busy for a request gets it again a little
later, and with `ordered` also all that was asked behind it.
"""

import time
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from penstock import logs
from penstock.client.errors import Lost, TimedOut, Unreachable, refusal
from penstock.spark.link import Link
from penstock.wire.rocketmq.codes import ResponseCode
from penstock.wire.rocketmq.frame import Frame

log = logs.get(__name__)

TRIES = 7  # half a minute in all
WAIT_S = 0.5  # before the second try; twice as long before each other
BUSY = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL)


class _Asked(NamedTuple):
    opaque: int
    code: int
    ext: Mapping[str, str]
    body: tuple[bytes | memoryview, ...]  # in parts, which are not joined: together they may be megabytes


class Window:
    def __init__(
        self, address: str, width: int, timeout_ms: int, good: tuple[int, ...] = (0,), ordered: bool = True
    ) -> None:
        self.address, self._width, self._timeout_ms = address, width, timeout_ms
        self._good, self._ordered = good, ordered
        self._link: Link | None = None
        self._under_way: deque[_Asked] = deque()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def ask(self, code: int, ext: Mapping[str, str], *body: bytes | memoryview) -> Frame:
        """One request, when all before it have been answered."""
        self.drain()
        self.add(code, ext, *body)
        return self._take()

    def add(self, code: int, ext: Mapping[str, str], *body: bytes | memoryview) -> None:
        """One more request; the oldest is waited for when there are too many. Its refusal is raised by then. Its body,
        in parts, stays as it is until it is answered: it may be asked again.
        """
        while len(self._under_way) >= self._width:
            self._take()
        asked = _Asked(0, code, ext, body)
        try:
            self._under_way.append(self._sent(asked))
        except (Unreachable, TimedOut):
            self._under_way.append(asked)
            self._ask_again()

    def drain(self) -> None:
        """All that was asked has been answered."""
        while self._under_way:
            self._take()

    def _sent(self, asked: _Asked) -> _Asked:
        if self._link is None:
            self._link = Link(self.address, timeout_ms=self._timeout_ms)
        return asked._replace(opaque=self._link.send(asked.code, asked.ext, *asked.body))

    def _take(self) -> Frame:
        """The answer to the oldest."""
        for attempt in range(TRIES):
            try:
                if self._link is None:
                    raise Lost(self.address, "there is no connection")
                answer = self._link.answer(self._under_way[0].opaque)
                if answer.code in BUSY and attempt < TRIES - 1:
                    log.info("a broker is busy, it is asked again", address=self.address, why=answer.remark)
                    time.sleep(WAIT_S * 2**attempt)
                    self._ask_the_oldest_again()
                    continue
            except (Lost, TimedOut) as error:
                log.info("a connection broke, all that was under way is asked again", error=str(error))
                self._ask_again()
                continue
            self._under_way.popleft()
            if answer.code not in self._good:
                raise refusal(answer, self.address)
            return answer
        raise Lost(self.address, "the connection breaks again and again")

    def _ask_the_oldest_again(self) -> None:
        if self._ordered:
            self._ask_again()
        else:
            self._under_way[0] = self._sent(self._under_way[0])

    def _ask_again(self) -> None:
        """All that is under way, over a new connection."""
        for attempt in range(TRIES):
            self.close()
            try:
                self._under_way = deque([self._sent(asked) for asked in self._under_way])
                return
            except (Unreachable, TimedOut) as error:
                if attempt == TRIES - 1:
                    raise
                log.info("a broker cannot be reached, it is tried again", error=str(error))
                time.sleep(WAIT_S * 2**attempt)
