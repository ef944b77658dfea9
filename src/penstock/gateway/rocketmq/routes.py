"""Which request code does what. Adding a command adds a line to a part's table and a function.

A handler decodes, calls one verb of the core, and answers; it may answer later. Before it runs, the authorizer is asked
for the action that its route names. Errors of the core become codes here and nowhere else. A code that nobody serves is
answered with REQUEST_CODE_NOT_SUPPORTED; nothing that a request holds can close the connection.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, TypeVar

import msgspec

from penstock import errors, logs
from penstock.core.authorizer import Authorizer
from penstock.gateway.rocketmq.connection import Connection
from penstock.model import Action
from penstock.wire.rocketmq.codes import ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.requests import fields_of, topic_of

log = logs.get(__name__)

CODES: dict[type[errors.PenstockError], ResponseCode] = {
    errors.TopicNotFound: ResponseCode.TOPIC_NOT_EXIST,
    errors.BadTopicName: ResponseCode.SYSTEM_ERROR,
    errors.QueueNotFound: ResponseCode.SYSTEM_ERROR,
    errors.TopicTerminated: ResponseCode.NO_PERMISSION,
    errors.MessageTooLarge: ResponseCode.MESSAGE_ILLEGAL,
    errors.NotAuthorized: ResponseCode.NO_PERMISSION,
    errors.GroupNotOnline: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    errors.ConsumeForbidden: ResponseCode.NO_PERMISSION,
    errors.NotSubscribed: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    errors.SubscriptionNotLatest: ResponseCode.SUBSCRIPTION_NOT_LATEST,
    errors.StoreReadOnly: ResponseCode.SERVICE_NOT_AVAILABLE,
    errors.DiskFull: ResponseCode.SERVICE_NOT_AVAILABLE,
    errors.StoreClosed: ResponseCode.SERVICE_NOT_AVAILABLE,
    errors.TooManyWaiting: ResponseCode.SYSTEM_BUSY,
    errors.TooManyHalves: ResponseCode.SYSTEM_BUSY,
    errors.HalfNotOpen: ResponseCode.SYSTEM_ERROR,
    errors.IndexBusy: ResponseCode.SYSTEM_BUSY,
}


class Refused(errors.PenstockError):
    """A request that cannot be served, with the protocol's own code."""

    def __init__(self, code: ResponseCode, why: str) -> None:
        super().__init__(why)
        self.code = code


One = Callable[[Frame, Connection], None]
Many = Callable[[list[Frame], Connection], None]


class Route(NamedTuple):
    """A handler (`plural`: of neighbours), the action it needs, and the ext field that names what it acts on."""

    handler: One | None
    needs: Action
    resource: str = "topic"
    plural: Many | None = None

    def call(self, frames: list[Frame], connection: Connection) -> None:
        if self.plural is not None:
            self.plural(frames, connection)
        elif self.handler is not None:
            self.handler(frames[0], connection)


Routes = dict[int, Route]
_CODE = attrgetter("code")
T = TypeVar("T", bound=msgspec.Struct)


def ext_as(kind: type[T], frame: Frame) -> T:
    """The ext fields of a request, typed; they are strings on the wire."""
    try:
        return fields_of(kind, frame)
    except msgspec.ValidationError as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"request {frame.code}: {error}") from None


def body_as(kind: type[T], frame: Frame) -> T:
    """A JSON body, typed."""
    try:
        return msgspec.json.decode(frame.body, type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"the body of request {frame.code} cannot be read: {error}") from None


class Router:
    """Hands requests to their handlers."""

    def __init__(
        self,
        tables: Iterable[Routes],
        authorizer: Authorizer,
        lost: Callable[[Connection], None],
        take: Callable[[memoryview, int, Connection], int],
        settle: Callable[[], None],
    ) -> None:
        self._routes: Routes = {}
        for table in tables:
            self._routes.update(table)
        self._authorizer = authorizer
        self.lost, self.take, self._settle = lost, take, settle

    def dispatch(self, frames: list[Frame], connection: Connection) -> None:
        self._settle()
        for code, neighbours in groupby(frames, _CODE):
            route = self._routes.get(code)
            if route is None:
                _not_supported(list(neighbours), connection)
                continue
            allowed = self._allowed(route, list(neighbours), connection)
            for frames_of_call in [allowed] if route.plural else [[frame] for frame in allowed]:
                if frames_of_call and not connection.gone:  # closed meanwhile: nobody would hear the answer
                    self._call(route, frames_of_call, connection)

    def _allowed(self, route: Route, frames: list[Frame], connection: Connection) -> list[Frame]:
        """Those that may be served; the others are told. Asked once for each thing that they are about."""
        refused: dict[str, errors.NotAuthorized] = {}
        for resource in {topic_of(frame, route.resource) for frame in frames}:
            try:
                self._authorizer.check(connection.who, route.needs, resource)
            except errors.NotAuthorized as error:
                refused[resource] = error
        if not refused:
            return frames
        for frame in frames:
            if why := refused.get(topic_of(frame, route.resource)):
                refuse(connection, frame, why)
        return [frame for frame in frames if topic_of(frame, route.resource) not in refused]

    def _call(self, route: Route, frames: list[Frame], connection: Connection) -> None:
        """Whatever goes wrong in a handler is told to the client: the connection lives on."""
        try:
            route.call(frames, connection)
        except errors.PenstockError as error:
            for frame in frames:
                refuse(connection, frame, error)
        except Exception as error:
            log.exception("a request failed", code=frames[0].code, address=connection.address)
            for frame in frames:
                connection.reply(frame, ResponseCode.SYSTEM_ERROR, f"the broker failed: {type(error).__name__}")


def _not_supported(frames: list[Frame], connection: Connection) -> None:
    for frame in frames:
        told = f"request code {frame.code} is not supported by this broker"
        connection.reply(frame, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, told)


def code_of(error: errors.PenstockError) -> int:
    if isinstance(error, Refused):
        return error.code
    return next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), ResponseCode.SYSTEM_ERROR)


def refuse(connection: Connection, frame: Frame, error: Exception) -> None:
    """Answer with the code that an error has in this protocol."""
    code = code_of(error) if isinstance(error, errors.PenstockError) else ResponseCode.SYSTEM_ERROR
    connection.reply(frame, code, str(error))
