"""Resets that take two: one person asks for it and says why, another approves or rejects it; an approved one is carried
out, and what became of it is kept beside it.

    open -> approved -> done or failed
    open -> rejected

A request is kept with the engine, among the settings that name servers keep for tools: on a real RocketMQ it works the
same, and whoever looks from another machine sees it too. Names are what people say they are, so this guards against a
slip of the hand at night, not against somebody who means harm.

What is to be reset is worked out anew when it is approved: offsets have moved since. A place that was said as "15m ago"
is the moment that it was when it was asked for.
"""

import secrets
from collections.abc import Awaitable
from typing import NamedTuple

import msgspec

from penstock.admin.engine import Engine
from penstock.admin.errors import NotPossible, NotThere, Unreadable
from penstock.admin.model import ResetDone, ResetInstance, ResetPlan, ResetResult
from penstock.admin.place import EARLIEST, LATEST, OFFSET, TIME, TIME_MS_MAX, Place
from penstock.errors import PenstockError

SPACE = "penstock.resets"
STATES = OPEN, APPROVED, REJECTED, DONE, FAILED = "open", "approved", "rejected", "done", "failed"
OPEN_MS_MAX = 7 * 24 * 3_600_000  # later on nobody knows any more what it was about
KEPT_MAX = 200
NAME_CHARS_MAX, WHY_CHARS_MAX, ERROR_CHARS_MAX = 64, 300, 500
NOTE_CHARS_MAX = 16_000  # of one request: less than what name servers keep


class Outcome(msgspec.Struct, omit_defaults=True):
    """What became of it. Where there are too many to keep, those that went wrong come first, and all are counted."""

    queues_count: int = 0
    queues: list[ResetDone] = []
    instances_count: int = 0
    instances: list[ResetInstance] = []
    away: list[str] = []
    error: str = ""

    @property
    def as_planned(self) -> bool:
        return not self.error and ResetResult(self.queues, self.instances, self.away).as_planned


class Request(msgspec.Struct):
    id: str
    group: str
    topic: str
    to: Place
    queue: int | None
    why: str
    asked_by: str
    asked_ms: int
    state: str = OPEN
    decided_by: str = ""
    decided_ms: int = 0
    outcome: Outcome | None = None

    def is_late(self, now_ms: int) -> bool:
        return self.state == OPEN and now_ms - self.asked_ms > OPEN_MS_MAX

    def line(self) -> str:
        """Who wanted it, and who approved it: for the record."""
        return f"{self.asked_by}, approved by {self.decided_by} (request {self.id})"


# --- decisions --------------------------------------------------------------------------------------------------------


def asked(plan: ResetPlan, to: Place, queue: int | None, why: str, by: str, now_ms: int) -> Request:
    if not 0 < len(why.strip()) <= WHY_CHARS_MAX:
        raise NotPossible(f"say why, in {WHY_CHARS_MAX} characters at most: whoever is to approve it wants to know")
    return Request(
        id=secrets.token_hex(3),
        group=plan.group,
        topic=plan.topic,
        to=to,
        queue=queue,
        why=why.strip(),
        asked_by=named(by),
        asked_ms=now_ms,
    )


def decided(request: Request, state: str, by: str, now_ms: int) -> Request:
    """The request, approved or rejected; NotPossible where it is not to be."""
    by = named(by)
    if request.state != OPEN:
        raise NotPossible(f"request {request.id} is {request.state} already, by {request.decided_by}")
    if state == APPROVED and request.is_late(now_ms):
        raise NotPossible(f"request {request.id} is more than a week old: ask for it anew")
    if state == APPROVED and by.casefold() == request.asked_by.casefold():
        raise NotPossible(
            f"request {request.id} is your own ({by}): somebody else approves it; if you are, say so with --as NAME"
        )
    return msgspec.structs.replace(request, state=state, decided_by=by, decided_ms=now_ms)


def named(by: str) -> str:
    name = " ".join(by.split())
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise NotPossible(f"a name has 1 to {NAME_CHARS_MAX} characters that can be printed: give yours with --as NAME")
    return name


def outcome_of(result: ResetResult) -> Outcome:
    queues = sorted(result.queues, key=lambda one: one.as_planned)
    instances = sorted(result.instances, key=lambda one: one.confirmed)
    return Outcome(len(queues), queues, len(instances), instances, result.away)


def note_of(request: Request) -> str:
    """As it is kept: short enough for any name server."""
    while len(text := msgspec.json.encode(request).decode()) > NOTE_CHARS_MAX:
        outcome = request.outcome or Outcome()
        fewer = msgspec.structs.replace(
            outcome,
            queues=outcome.queues[: len(outcome.queues) // 2],
            instances=outcome.instances[: len(outcome.instances) // 2],
            away=outcome.away[: max(len(outcome.away) // 2, 1)],
        )
        if fewer == outcome:
            raise NotPossible("the names in this request are too long to be kept")
        request = msgspec.structs.replace(request, outcome=fewer)
    return text


def surplus(known: list[Request]) -> list[Request]:
    """Which make room for one more: the oldest that are over."""
    over = [request for request in known if request.state != OPEN]
    wanted = len(known) + 1 - KEPT_MAX
    if wanted > len(over):
        raise NotPossible(f"{KEPT_MAX} requests are open: reject some first")
    return over[: max(wanted, 0)]


# --- with the engine --------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    requests: list[Request]  # the oldest first
    unreadable: list[str]  # keys of settings among them that are none


async def known(engine: Engine) -> Known:
    found, unreadable = [], []
    for key, texts in (await engine.kept(SPACE)).items():
        try:
            found.append(_read(key, texts))
        except Unreadable:
            unreadable.append(key)
    return Known(sorted(found, key=lambda request: request.asked_ms), unreadable)


async def find(engine: Engine, id: str) -> Request:
    texts = (await engine.kept(SPACE)).get(id)
    if texts is None:
        raise NotThere(f"there is no request {id[:60]!r}: penstock request list --all has them")
    return _read(id, texts)


def _read(key: str, texts: list[str]) -> Request:
    """Whatever else may stand there. Where name servers disagree, what has come furthest counts."""
    try:
        return max(
            (_request_in(key, text) for text in texts), key=lambda one: (one.decided_ms, one.outcome is not None)
        )
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        why = f"the setting {key[:60]!r} in {SPACE} is no request of ours ({str(error)[:100]})"
        raise Unreadable(f"{why}: penstock request reject forgets it") from None


def _request_in(key: str, text: str) -> Request:
    found = msgspec.json.decode(text, type=Request)
    times = (found.asked_ms, found.decided_ms, found.to.value if found.to.kind == TIME else 0)
    places = found.to.kind in (EARLIEST, LATEST, OFFSET, TIME) and found.to.value >= 0
    if found.id != key or found.state not in STATES or not places or not all(0 <= at <= TIME_MS_MAX for at in times):
        raise ValueError("it is odd")
    return found


async def keep(engine: Engine, request: Request) -> None:
    await engine.keep(SPACE, request.id, note_of(request))


async def ask(engine: Engine, request: Request) -> None:
    for old in surplus((await known(engine)).requests):
        await engine.forget(SPACE, old.id)
    await keep(engine, request)


async def decide(engine: Engine, id: str, state: str, by: str, now_ms: int) -> Request:
    """It is kept first and looked at once more, so that of two who decide at one moment one is told. Name servers know
    no "only if it is still so": between the two looks at it a moment is left in which neither sees the other.
    """
    request = decided(await find(engine, id), state, by, now_ms)
    await keep(engine, request)
    now = await find(engine, id)
    if now != request:
        raise NotPossible(f"request {id} was {now.state} by {now.decided_by} at this moment")
    return request


async def reject(engine: Engine, id: str, by: str, now_ms: int) -> None:
    """Also what cannot be read goes."""
    try:
        await decide(engine, id, REJECTED, by, now_ms)
    except Unreadable:
        await engine.forget(SPACE, id)


async def carried_out(engine: Engine, approved: Request, doing: Awaitable[ResetResult]) -> tuple[ResetResult, str]:
    """Do it, and keep what has become of it, also when it failed; and why that could not be kept, if it could not."""
    try:
        result = await doing
    except PenstockError as error:
        await _close(engine, approved, FAILED, Outcome(error=str(error)[:ERROR_CHARS_MAX]))
        raise
    return result, await _close(engine, approved, DONE, outcome_of(result))


async def _close(engine: Engine, approved: Request, state: str, outcome: Outcome) -> str:
    try:
        await keep(engine, msgspec.structs.replace(approved, state=state, outcome=outcome))
    except PenstockError as error:  # what happened to the reset matters more
        return str(error)
    return ""
