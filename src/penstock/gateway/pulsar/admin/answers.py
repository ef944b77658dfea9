"""What is answered, and with which status: the codes that Pulsar's own clients know.

    400 no JSON   403 not allowed to   404 not there   405 never, for such a topic   406 too many partitions
    409 there already, or at odds with it   412 not as it is, or not with such a name   422 not such a value
    503 not now

Every answer that is not a success has a reason in words.
"""

from penstock import errors
from penstock.gateway.http.messages import Reply
from penstock.gateway.pulsar.routes import code_of
from penstock.wire.pulsar.commands_pb2 import ServerError

TEXT = "text/plain; charset=utf-8"

STATUS: dict[type[errors.PenstockError], int] = {
    errors.TopicExists: 409,
    errors.NamespaceExists: 409,
    errors.TenantExists: 409,
    errors.SubscriptionExists: 409,
    errors.TenantNotFound: 404,
    errors.TopicTerminated: 405,
    errors.SchemaIncompatible: 409,
    errors.SchemaInvalid: 422,
    errors.TooManySchemas: 412,
    errors.CompactionRunning: 409,
    errors.BadTopicSettings: 412,
    errors.TooManySubscriptions: 412,
    errors.TooManyNamespaces: 412,
}
# What the binary side has a code for needs no line above.
STATUS_OF_CODE: dict["ServerError", int] = {
    ServerError.TopicNotFound: 404,
    ServerError.SubscriptionNotFound: 404,
    ServerError.AuthorizationError: 403,
    ServerError.InvalidTopicName: 412,
    ServerError.NotAllowedError: 405,
    ServerError.ProducerBusy: 412,
    ServerError.ProducerFenced: 412,
    ServerError.ConsumerBusy: 412,
    ServerError.PersistenceError: 503,
    ServerError.ServiceNotReady: 503,
    ServerError.TooManyRequests: 503,
}


class Declined(errors.PenstockError):
    """A request that cannot be served, with its status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def status_of(error: errors.PenstockError) -> int:
    if isinstance(error, Declined):
        return error.status
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return STATUS_OF_CODE.get(code_of(error), 500)


def done() -> Reply:
    """It is done, and there is nothing to say."""
    return Reply(204, b"")


def in_words(text: str) -> Reply:
    return Reply(200, text.encode(), TEXT)
