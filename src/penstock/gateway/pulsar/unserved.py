"""What this broker does not do, or not yet: answered at once with the protocol's own error, so that no client waits."""

from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.routes import Refused, Route, Routes
from penstock.model import Action
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError

_TRANSACTIONS = (
    BaseCommand.NEW_TXN,
    BaseCommand.ADD_PARTITION_TO_TXN,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN,
    BaseCommand.END_TXN,
    BaseCommand.END_TXN_ON_PARTITION,
    BaseCommand.END_TXN_ON_SUBSCRIPTION,
    BaseCommand.TC_CLIENT_CONNECT_REQUEST,
)
_CONSUMING = (
    BaseCommand.SUBSCRIBE,
    BaseCommand.UNSUBSCRIBE,
    BaseCommand.SEEK,
    BaseCommand.GET_LAST_MESSAGE_ID,
)
_OF_NOBODY = (BaseCommand.FLOW, BaseCommand.ACK, BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES)


class Unserved:
    def routes(self) -> Routes:
        return {
            **dict.fromkeys(_TRANSACTIONS, Route(no_transactions, Action.PRODUCE, "")),
            **dict.fromkeys(_CONSUMING, Route(no_consumers, Action.CONSUME, "")),
            **dict.fromkeys(_OF_NOBODY, Route(nothing, Action.CONSUME, "")),
            BaseCommand.CLOSE_CONSUMER: Route(closed, Action.LOOKUP, ""),
            BaseCommand.CONSUMER_STATS: Route(no_consumers, Action.CONSUME, "", refuse=no_stats),
            BaseCommand.GET_SCHEMA: Route(no_schema, Action.LOOKUP, refuse=schema_not_found),
            BaseCommand.GET_OR_CREATE_SCHEMA: Route(no_schemas, Action.PRODUCE, refuse=schema_not_kept),
        }


def no_transactions(asked: pb.TransactionRequest, connection: Connection) -> None:
    raise Refused(ServerError.NotAllowedError, "Transactions are not enabled.")  # the sentence that clients know


def no_consumers(asked: object, connection: Connection) -> None:
    raise Refused(ServerError.NotAllowedError, "Pulsar clients can only produce here: nothing can be consumed yet")


def nothing(asked: object, connection: Connection) -> None:
    """Nobody waits for an answer to these, and there is nobody here whom they are about."""


def closed(asked: pb.CommandCloseConsumer, connection: Connection) -> None:
    connection.send(BaseCommand.SUCCESS, pb.CommandSuccess(request_id=asked.request_id))


def no_stats(asked: pb.CommandConsumerStats, connection: Connection, code: ServerError, why: str) -> None:
    answer = pb.CommandConsumerStatsResponse(
        request_id=asked.request_id, error_code=ServerError.ConsumerNotFound, error_message=why
    )
    connection.send(BaseCommand.CONSUMER_STATS_RESPONSE, answer)


def no_schema(asked: pb.CommandGetSchema, connection: Connection) -> None:
    raise Refused(ServerError.TopicNotFound, "this topic has no schema: none are kept here")


def no_schemas(asked: pb.CommandGetOrCreateSchema, connection: Connection) -> None:
    raise Refused(ServerError.NotAllowedError, "schemas are not kept here: send bytes, and decode them yourself")


def schema_not_found(asked: pb.CommandGetSchema, connection: Connection, code: ServerError, why: str) -> None:
    answer = pb.CommandGetSchemaResponse(request_id=asked.request_id, error_code=code, error_message=why)
    connection.send(BaseCommand.GET_SCHEMA_RESPONSE, answer)


def schema_not_kept(asked: pb.CommandGetOrCreateSchema, connection: Connection, code: ServerError, why: str) -> None:
    answer = pb.CommandGetOrCreateSchemaResponse(request_id=asked.request_id, error_code=code, error_message=why)
    connection.send(BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE, answer)
