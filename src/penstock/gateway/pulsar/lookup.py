"""What clients ask before they produce or consume: how many partitions a topic has, which broker serves it, which
topics there are. The one broker is this one.
"""

from collections.abc import Callable

from penstock import errors
from penstock.config import ServerConfig
from penstock.core.namespaces import Namespaces
from penstock.gateway.address import for_pulsar, joined
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.places import Places
from penstock.gateway.pulsar.routes import Refused, Route, Routes, refuse
from penstock.model import Action
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError
from penstock.wire.pulsar.topics import TopicName, check_namespace, topics_hash

_Lookup, _Partitions = pb.CommandLookupTopicResponse, pb.CommandPartitionedTopicMetadataResponse


class Home:
    """Where clients are told to connect: to what is advertised; where nothing is, to where they are already.

    That address they may not be able to reach, when it is translated on the way here. So they are told to come again by
    the one that they were given (`proxy`), and the one in the answer is only a name.
    """

    def __init__(self, config: ServerConfig, port: Callable[[], int], http_port: Callable[[], int]) -> None:
        self._host, self._port = for_pulsar(config.advertise)
        self._own_port, self._http_port = port, http_port

    @property
    def proxy(self) -> bool:
        return not self._host

    def url_for(self, host: str) -> str:
        """For whoever is connected to `host`."""
        return f"pulsar://{joined(self._host or host, self._port or self._own_port())}"

    def http_address_for(self, host: str) -> str:
        return joined(self._host or host, self._http_port())


class Lookup:
    def __init__(self, places: Places, namespaces: Namespaces, home: Home) -> None:
        self._places, self._namespaces, self._home = places, namespaces, home
        self._partitions = Route(self.partitions, Action.LOOKUP, refuse=no_partitions)

    def routes(self) -> Routes:
        return {
            BaseCommand.PARTITIONED_METADATA: self._partitions,
            BaseCommand.LOOKUP: Route(self.lookup, Action.LOOKUP, refuse=not_found),
            BaseCommand.GET_TOPICS_OF_NAMESPACE: Route(self.topics, Action.LOOKUP, "namespace"),
        }

    def partitions(self, asked: pb.CommandPartitionedTopicMetadata, connection: Connection) -> None:
        name = self._places.named(asked.topic)
        connection.spawn(self._tell_partitions(asked, name, connection))

    async def _tell_partitions(
        self, asked: pb.CommandPartitionedTopicMetadata, name: TopicName, connection: Connection
    ) -> None:
        try:
            found = await self._places.partitions(name, asked.metadata_auto_creation_enabled)
        except errors.PenstockError as error:
            refuse(connection, self._partitions, asked, error)
        else:
            answer = _Partitions(request_id=asked.request_id, response=_Partitions.Success, partitions=found)
            connection.send(BaseCommand.PARTITIONED_METADATA_RESPONSE, answer)

    def lookup(self, asked: pb.CommandLookupTopic, connection: Connection) -> None:
        if asked.advertised_listener_name:
            # One client knows this sentence, and then asks no more.
            why = f"the broker do not have {asked.advertised_listener_name} listener"
            raise Refused(ServerError.ServiceNotReady, why)
        self._places.check(self._places.named(asked.topic))
        answer = _Lookup(
            request_id=asked.request_id,
            response=_Lookup.Connect,
            brokerServiceUrl=self._home.url_for(connection.local_host),
            authoritative=True,
            proxy_through_service_url=self._home.proxy,
        )
        connection.send(BaseCommand.LOOKUP_RESPONSE, answer)

    def topics(self, asked: pb.CommandGetTopicsOfNamespace, connection: Connection) -> None:
        """All of them: a client filters by its pattern itself, with its own rules."""
        namespace = check_namespace(asked.namespace)
        there = self._places.names_in(namespace)
        if not there and namespace not in self._namespaces:
            raise errors.NamespaceNotFound(namespace)
        names = [] if asked.mode == pb.CommandGetTopicsOfNamespace.NON_PERSISTENT else there
        found = topics_hash(names)
        changed = found != asked.topics_hash
        answer = pb.CommandGetTopicsOfNamespaceResponse(
            request_id=asked.request_id,
            topics=names if changed else [],
            topics_hash=found,
            changed=changed,
            filtered=False,
        )
        connection.send(BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE, answer)


def no_partitions(
    asked: pb.CommandPartitionedTopicMetadata, connection: Connection, code: ServerError, why: str
) -> None:
    answer = _Partitions(request_id=asked.request_id, response=_Partitions.Failed, error=code, message=why)
    connection.send(BaseCommand.PARTITIONED_METADATA_RESPONSE, answer)


def not_found(asked: pb.CommandLookupTopic, connection: Connection, code: ServerError, why: str) -> None:
    answer = _Lookup(request_id=asked.request_id, response=_Lookup.Failed, error=code, message=why)
    connection.send(BaseCommand.LOOKUP_RESPONSE, answer)
