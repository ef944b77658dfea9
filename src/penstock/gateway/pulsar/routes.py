"""Which command does what. Adding one adds a line to a part's table and a function.

A handler decodes, calls one verb of the core, and answers; it may answer later. Before it runs, the authorizer is asked
for the action that its route names. Errors of the core become the protocol's here and nowhere else; each request has an
answer of its own kind for them, since clients number their lookups apart from everything else.

A command that only brokers send, or that comes before the client has introduced itself, closes the connection. What
this broker does not do is answered at once (`unserved.py`), so that nobody waits for it.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from penstock import errors, logs
from penstock.core.authorizer import Authorizer
from penstock.gateway.pulsar.connection import Connection
from penstock.model import Action
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError
from penstock.wire.pulsar.entry import ChecksumMismatch, PayloadError
from penstock.wire.pulsar.frame import FIELDS, Frame

log = logs.get(__name__)

CODES: dict[type[errors.PenstockError], "ServerError"] = {
    errors.TopicNotFound: ServerError.TopicNotFound,
    errors.NamespaceNotFound: ServerError.TopicNotFound,
    errors.QueueNotFound: ServerError.TopicNotFound,
    errors.BadTopicName: ServerError.InvalidTopicName,
    errors.BadTopicSettings: ServerError.NotAllowedError,
    errors.TopicTerminated: ServerError.TopicTerminatedError,
    errors.MessageTooLarge: ServerError.NotAllowedError,
    errors.NotAuthorized: ServerError.AuthorizationError,
    errors.QuotaHolds: ServerError.ProducerBlockedQuotaExceededError,
    errors.QuotaExceeded: ServerError.ProducerBlockedQuotaExceededException,
    errors.ProducerBusy: ServerError.ProducerBusy,
    errors.ProducerFenced: ServerError.ProducerFenced,
    errors.TooManyWaiting: ServerError.TooManyRequests,
    errors.ConsumerBusy: ServerError.ConsumerBusy,
    errors.RangesOverlap: ServerError.ConsumerAssignError,
    errors.SubscriptionNotFound: ServerError.SubscriptionNotFound,
    errors.TooManySubscriptions: ServerError.NotAllowedError,
    errors.SchemaInvalid: ServerError.IncompatibleSchema,
    errors.SchemaIncompatible: ServerError.IncompatibleSchema,
    errors.SchemaNotFound: ServerError.TopicNotFound,
    errors.TooManySchemas: ServerError.NotAllowedError,
    errors.StoreError: ServerError.PersistenceError,
    ChecksumMismatch: ServerError.ChecksumError,
    PayloadError: ServerError.NotAllowedError,
}


class Refused(errors.PenstockError):
    """A request that cannot be served, with the protocol's own code."""

    def __init__(self, code: "ServerError", why: str) -> None:
        super().__init__(why)
        self.code = code


One = Callable[[Any, Connection], None]  # the command's own message
Many = Callable[[list[Frame], Connection], None]
Refuse = Callable[[Any, Connection, "ServerError", str], None]


class Route(NamedTuple):
    """A handler (`plural`: of neighbours), the action it needs, and the field that names what it acts on."""

    handler: One | None
    needs: Action
    resource: str = "topic"
    plural: Many | None = None
    refuse: Refuse | None = None  # another answer than the plain ERROR


Routes = dict[int, Route]
_TYPE = attrgetter("type")


class Router:
    """Hands commands to their handlers."""

    def __init__(self, tables: Iterable[Routes], authorizer: Authorizer, lost: Callable[[Connection], None]) -> None:
        self._routes: Routes = {}
        for table in tables:
            self._routes.update(table)
        self._authorizer = authorizer
        self.lost = lost

    def dispatch(self, frames: list[Frame], connection: Connection) -> None:
        for kind, neighbours in groupby(frames, _TYPE):
            route = self._routes.get(kind)
            for several in [list(neighbours)] if route and route.plural else ([frame] for frame in neighbours):
                if connection.gone:  # nobody would hear the answer
                    return
                if route is None or connection.introduced == (kind == BaseCommand.CONNECT):
                    _violated(kind, connection)
                    return
                self._call(route, several, connection)

    def _call(self, route: Route, frames: list[Frame], connection: Connection) -> None:
        """Whatever goes wrong in a handler is told to the client: the connection lives on."""
        body = frames[0].body
        try:
            if route.plural is not None:
                route.plural(frames, connection)  # what it acts on was checked when it was opened
            elif route.handler is not None:
                resource = str(getattr(body, route.resource)) if route.resource else ""
                self._authorizer.check(connection.who, route.needs, resource)
                route.handler(body, connection)
        except errors.PenstockError as error:
            refuse(connection, route, body, error)
        except Exception as error:
            log.exception("a command failed", command=FIELDS[frames[0].type], address=connection.address)
            told = f"the broker failed: {type(error).__name__}"
            (route.refuse or plain_error)(body, connection, ServerError.UnknownError, told)


def _violated(kind: int, connection: Connection) -> None:
    log.warning("a connection was closed: a command out of place", command=FIELDS[kind], address=connection.address)
    connection.abort()


def code_of(error: Exception) -> "ServerError":
    if isinstance(error, Refused):
        return error.code
    return next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), ServerError.UnknownError)


def refusal_of(error: Exception) -> tuple["ServerError", str]:
    """What a producer or consumer is told that cannot be opened. While nothing can be written, clients try again."""
    if isinstance(error, errors.StoreReadOnly | errors.DiskFull):
        return ServerError.ServiceNotReady, f"Topic is temporarily unavailable: {error}"
    return code_of(error), str(error)


def refuse(connection: Connection, route: Route, body: Any, error: Exception) -> None:
    """Answer with the code that an error has in this protocol."""
    (route.refuse or plain_error)(body, connection, code_of(error), str(error))


def plain_error(body: Any, connection: Connection, code: "ServerError", why: str) -> None:
    error = pb.CommandError(request_id=getattr(body, "request_id", 0), error=code, message=why)
    connection.send(BaseCommand.ERROR, error)
