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
        return dict.fromkeys(_TRANSACTIONS, Route(no_transactions, Action.PRODUCE, ""))


def no_transactions(asked: pb.TransactionRequest, connection: Connection) -> None:
    raise Refused(ServerError.NotAllowedError, "Transactions are not enabled.")  # the sentence that clients know
