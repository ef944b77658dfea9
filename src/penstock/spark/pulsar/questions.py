"""What a Pulsar cluster is asked over its binary protocol: partitions, topics, last messages; and what it is told.

Nothing that is asked makes a topic. A connection and a consumer that was needed to ask are kept: a stream asks again
and again. When one is lost, or its broker has given the topic away, `Unreachable` says so and the next question begins
anew.
"""

import itertools
import secrets
from typing import NamedTuple

from penstock.client.errors import ClientError, NoRoute, Refused, Unreachable
from penstock.spark.pulsar.link import Link
from penstock.spark.pulsar.positions import EARLIEST, Place
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError
from penstock.wire.pulsar.topics import topic_name

REDIRECTS_MAX = 20
PARTITIONS_MAX = 65_536  # more is no answer, but an attempt on our memory
_Lookup, _Partitions = pb.CommandLookupTopicResponse, pb.CommandPartitionedTopicMetadataResponse
_NEGATIVE = 1 << 63
_NOTHING = (1 << 64) - 1


class _Consumer(NamedTuple):
    link: Link
    id: int


class Questions:
    def __init__(self, servers: list[str], prefix: str) -> None:
        self._servers, self._name = servers, f"{prefix}-{secrets.token_hex(5)}"
        self._links: dict[tuple[str, str], Link] = {}  # by address, and by the broker behind it
        self._readers: dict[str, _Consumer] = {}
        self._writers: dict[tuple[str, str], _Consumer] = {}  # of durable subscriptions, by topic and name
        self._ids = itertools.count(1)

    def close(self) -> None:
        for link in self._links.values():
            link.close()
        for known in (self._links, self._readers, self._writers):
            known.clear()

    # --- topics -------------------------------------------------------------------------------------------------------

    def partitions(self, topic: str) -> list[str]:
        """The whole names of a topic's partitions, or its own when it has none. NoRoute when it does not exist."""
        asked = pb.CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=False)
        asked.request_id = 0
        answer = self._home().ask(BaseCommand.PARTITIONED_METADATA, asked, BaseCommand.PARTITIONED_METADATA_RESPONSE)
        if answer.response != _Partitions.Success:
            if answer.error == ServerError.TopicNotFound:
                raise NoRoute(topic, self._servers[0])
            raise Refused(answer.error, answer.message, self._servers[0])
        if answer.partitions > PARTITIONS_MAX:
            raise Refused(0, f"it says that {topic} has {answer.partitions} partitions", self._servers[0])
        name = topic_name(topic)
        return [name.of_partition(number).full for number in range(answer.partitions)] or [topic]

    def names(self, namespace: str) -> list[str]:
        """Whole names of all persistent topics, partitions under that of their topic."""
        asked = pb.CommandGetTopicsOfNamespace(namespace=namespace, request_id=0)
        kind = BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE
        found = self._home().ask(BaseCommand.GET_TOPICS_OF_NAMESPACE, asked, kind).topics
        return list(dict.fromkeys(topic_name(name).base for name in found))

    # --- one partition ------------------------------------------------------------------------------------------------

    def end(self, partition: str) -> Place:
        """The place behind the last message; the earliest when there is none."""
        reader = self._alive(self._readers.get(partition))
        if reader is None:
            reader = self._readers[partition] = self._reader(partition)
        asked = pb.CommandGetLastMessageId(consumer_id=reader.id, request_id=0)
        kind = BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE
        last = reader.link.ask(BaseCommand.GET_LAST_MESSAGE_ID, asked, kind).last_message_id
        if last.ledgerId >= _NEGATIVE or last.entryId >= _NEGATIVE:
            return Place(EARLIEST)
        return Place.of(last.ledgerId, last.entryId, max(last.batch_index, 0)).next

    def move(self, partition: str, subscription: str, place: Place) -> None:
        """Have a durable subscription, and have it keep everything from the entry on that the message before a place
        is in.
        """
        key = (partition, subscription)
        writer = self._alive(self._writers.get(key))
        if writer is None:
            writer = self._writers[key] = self._subscribed(partition, subscription)
        if place == EARLIEST:
            return
        before = place.entry - 1 if place.entry else _NOTHING
        asked = pb.CommandAck(consumer_id=writer.id, ack_type=pb.CommandAck.Cumulative, request_id=0)
        asked.message_id.append(pb.MessageIdData(ledgerId=place.ledger, entryId=before))
        answer = writer.link.ask(BaseCommand.ACK, asked, BaseCommand.ACK_RESPONSE)
        if answer.HasField("error"):
            raise Refused(answer.error, answer.message, writer.link.address)

    def _alive(self, consumer: _Consumer | None) -> _Consumer | None:
        return None if consumer is None or consumer.id in consumer.link.closed else consumer

    def _reader(self, partition: str) -> _Consumer:
        asked = self._subscribe(partition, self._name)
        asked.durable = False
        asked.start_message_id.CopyFrom(pb.MessageIdData(ledgerId=_NEGATIVE - 1, entryId=_NEGATIVE - 1))
        return self._asked_for(partition, asked)

    def _subscribed(self, partition: str, subscription: str) -> _Consumer:
        asked = self._subscribe(partition, subscription)
        asked.initialPosition = pb.CommandSubscribe.Earliest
        return self._asked_for(partition, asked)

    def _subscribe(self, partition: str, subscription: str) -> pb.CommandSubscribe:
        return pb.CommandSubscribe(
            topic=partition,
            subscription=subscription,
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=next(self._ids),
            consumer_name=self._name,
            force_topic_creation=False,
            request_id=0,
        )

    def _asked_for(self, partition: str, asked: pb.CommandSubscribe) -> _Consumer:
        link = self._owner(partition)
        try:
            link.ask(BaseCommand.SUBSCRIBE, asked, BaseCommand.SUCCESS)
        except Refused as error:
            if error.code == ServerError.TopicNotFound:
                raise NoRoute(partition, link.address) from None
            if error.code == ServerError.ServiceNotReady:
                raise Unreachable(partition, f"{link.address} has it not ready: {error.remark}") from None
            raise
        return _Consumer(link, asked.consumer_id)

    # --- connections --------------------------------------------------------------------------------------------------

    def _owner(self, partition: str) -> Link:
        """A connection to the broker that has a partition now."""
        link, authoritative = self._home(), False
        for _ in range(REDIRECTS_MAX):
            asked = pb.CommandLookupTopic(topic=partition, request_id=0, authoritative=authoritative)
            answer = link.ask(BaseCommand.LOOKUP, asked, BaseCommand.LOOKUP_RESPONSE)
            if answer.response == _Lookup.Failed:
                raise self._no_owner(partition, answer)
            there = answer.brokerServiceUrl.removeprefix("pulsar://").rstrip("/")
            through = answer.proxy_through_service_url
            link = self._link(link.address, there) if through else self._link(there)
            if answer.response == _Lookup.Connect:
                return link
            authoritative = answer.authoritative
        raise Unreachable(partition, f"brokers have sent us from one to the next {REDIRECTS_MAX} times")

    def _no_owner(self, partition: str, answer: pb.CommandLookupTopicResponse) -> ClientError:
        if answer.error == ServerError.TopicNotFound:
            return NoRoute(partition, self._servers[0])
        if answer.error in (ServerError.ServiceNotReady, ServerError.MetadataError):
            return Unreachable(partition, f"no broker has it now: {answer.message}")
        return Refused(answer.error, answer.message, self._servers[0])

    def _home(self) -> Link:
        """The first server that answers."""
        failures = []
        for server in self._servers:
            try:
                return self._link(server)
            except Unreachable as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise Unreachable(",".join(self._servers), "; ".join(map(str, failures)))

    def _link(self, address: str, proxied_to: str = "") -> Link:
        key = (address, proxied_to)
        if key not in self._links:
            self._links[key] = Link(address, proxied_to)
        return self._links[key]
