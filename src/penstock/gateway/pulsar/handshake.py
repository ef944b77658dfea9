"""How a connection begins and stays alive: CONNECT, PING, PONG.

The version that both sides go by is the lower of theirs. What this broker can do beyond that is told in flags; a client
asks for a thing only when its flag is set.
"""

from penstock import __version__
from penstock.config import PulsarConfig
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.routes import Route, Routes
from penstock.model import Action
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand
from penstock.wire.pulsar.frame import command, pack

VERSION = 21  # of the protocol
CLIENT_CHARS_MAX = 200

_PONG = pack(command(BaseCommand.PONG, pb.CommandPong()))


class Handshake:
    def __init__(self, config: PulsarConfig) -> None:
        self._message_bytes_max = config.message_bytes_max

    def routes(self) -> Routes:
        return {
            BaseCommand.CONNECT: Route(self.connect, Action.LOOKUP, ""),
            BaseCommand.PING: Route(self.ping, Action.LOOKUP, ""),
            BaseCommand.PONG: Route(self.pong, Action.LOOKUP, ""),
        }

    def connect(self, asked: pb.CommandConnect, connection: Connection) -> None:
        """Whoever comes is let in until users are configured; a proxy's address is this broker's own."""
        connection.introduced = True
        connection.version = max(0, min(VERSION, asked.protocol_version))
        connection.client = str(asked.client_version)[:CLIENT_CHARS_MAX]
        flags = pb.FeatureFlags(
            supports_topic_watchers=True, supports_get_partitioned_metadata_without_auto_creation=True
        )
        connected = pb.CommandConnected(
            server_version=f"Penstock {__version__}",
            protocol_version=connection.version,
            max_message_size=self._message_bytes_max,
            feature_flags=flags,
        )
        connection.send(BaseCommand.CONNECTED, connected)

    def ping(self, asked: pb.CommandPing, connection: Connection) -> None:
        connection.write(_PONG)

    def pong(self, asked: pb.CommandPong, connection: Connection) -> None:
        """A sign of life, as any command is; the connection has noted it."""
