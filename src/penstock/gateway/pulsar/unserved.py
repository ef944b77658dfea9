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


class Unserved:
    def routes(self) -> Routes:
        return {
            **dict.fromkeys(_TRANSACTIONS, Route(no_transactions, Action.PRODUCE, "")),
            BaseCommand.GET_SCHEMA: Route(no_schema, Action.LOOKUP, refuse=schema_not_found),
            BaseCommand.GET_OR_CREATE_SCHEMA: Route(no_schemas, Action.PRODUCE, refuse=schema_not_kept),
        }


def no_transactions(asked: pb.TransactionRequest, connection: Connection) -> None:
    raise Refused(ServerError.NotAllowedError, "Transactions are not enabled.")  # the sentence that clients know


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
