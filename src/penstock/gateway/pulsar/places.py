"""From a name that a Pulsar client gives to a queue of a topic here, which may have to be made first.

A topic that is not partitioned has one queue; a partition is a queue of its topic. One that RocketMQ's clients made is
partitioned, whatever its number of queues, and so is one that their tools have given more queues. Topics belong to both
protocols (docs/cross-protocol.md), and permissions hold for both; the broker's own are left to those they are for.
"""

from typing import NamedTuple

from penstock.core.namespaces import Namespaces
from penstock.core.policies import Creation, PolicyBook
from penstock.core.topics import READ, WRITE, Topic, Topics, TopicSettings
from penstock.errors import NamespaceNotFound, TopicNotFound
from penstock.gateway.pulsar.routes import Refused
from penstock.wire.pulsar.commands_pb2 import ServerError
from penstock.wire.pulsar.topics import NON_PERSISTENT, TopicName, from_own, topic_name

PARTITIONED = "pulsar.partitioned"  # the attribute of topics that were made here: "yes" or "no"
OPEN = "pulsar.open"  # the attribute of topics that were made when RocketMQ's clients had a part in them already
PROPERTY = "pulsar.property."  # what the attributes begin with that are properties to Pulsar's clients
_NEVER_PARTITIONED = ("-DLQ", "-RETRY")  # made by clients, each with one queue


class Place(NamedTuple):
    """A queue, and what it is called."""

    name: TopicName
    topic: Topic
    queue: int


def partitions_of(topic: Topic) -> int:
    """How many a topic has; 0 when it is not partitioned."""
    alone = topic.attributes.get(PARTITIONED) == "no" and topic.queue_count == 1
    return 0 if alone else topic.queue_count


def properties_of(topic: Topic) -> dict[str, str]:
    return {key.removeprefix(PROPERTY): value for key, value in topic.attributes.items() if key.startswith(PROPERTY)}


def is_ours(topic: Topic) -> bool:
    """Whether it was made by Pulsar's clients: then the policies of its namespace hold."""
    return PARTITIONED in topic.attributes


def allow(topic: Topic, permission: int) -> None:
    """Refused when a topic is the broker's own, or may not be read or written to at present."""
    if topic.system:
        raise Refused(ServerError.NotAllowedError, f"topic {topic.name} is the broker's own")
    if not topic.permissions & permission:
        what = "read" if permission == READ else "written to"
        raise Refused(ServerError.NotAllowedError, f"topic {topic.name} may not be {what} at present: its permissions")


class Places:
    def __init__(self, topics: Topics, namespaces: Namespaces, policies: PolicyBook) -> None:
        self._topics, self._namespaces, self._policies = topics, namespaces, policies

    def _creation(self, name: TopicName) -> Creation:
        """Whether a topic that is not there is made by whoever comes for it."""
        return self._policies.in_namespace(f"{name.tenant}/{name.namespace}").topic_creation or Creation()

    def open_old_ones(self) -> None:
        """Topics of older versions were closed to RocketMQ's clients: they are not any more. Once for each, since
        whoever takes permissions away later means it.
        """
        for topic in list(self._topics):
            if PARTITIONED in topic.attributes and OPEN not in topic.attributes:
                attributes = topic.attributes | {OPEN: "yes"}
                self._topics.alter_now(topic.name, TopicSettings(permissions=READ | WRITE, attributes=attributes))

    def named(self, text: str) -> TopicName:
        """The name, once it is clear that its namespace is there."""
        name = topic_name(text)
        if name.domain == NON_PERSISTENT:
            raise Refused(ServerError.NotAllowedError, f"{name.full}: non-persistent topics are not served here")
        namespace = f"{name.tenant}/{name.namespace}"
        if namespace not in self._namespaces and self._topics.find(name.own_name) is None:
            raise NamespaceNotFound(namespace)
        return name

    def check(self, name: TopicName) -> None:
        """Whether the topic is there, or may be made by whoever comes for it."""
        topic = self._topics.find(name.own_name)
        if topic is not None:
            self._queue(name, topic)
        elif not self._creation(name).allowed or name.partition >= 0:
            raise TopicNotFound(name.full)

    async def partitions(self, name: TopicName, may_create: bool) -> int:
        """How many partitions a topic has, or will have when it is made. A partitioned one is made now."""
        topic = self._topics.find(name.own_name)
        if topic is not None:
            if name.partition >= 0:
                self._queue(name, topic)
                return 0
            return partitions_of(topic)
        creation = self._creation(name)
        if not (creation.allowed and may_create) or name.partition >= 0:
            raise TopicNotFound(name.full)
        if creation.partitions == 0 or name.local.endswith(_NEVER_PARTITIONED):
            return 0
        return partitions_of(await self.create(name, creation.partitions))

    async def place(self, name: TopicName, may_create: bool = True) -> Place:
        """Where a producer or consumer of a topic is to go; the topic is made where that is allowed."""
        topic = self._topics.find(name.own_name)
        if topic is None:
            if not (self._creation(name).allowed and may_create) or name.partition >= 0:
                raise TopicNotFound(name.full)
            topic = await self.create(name, 0)
        return Place(name, topic, self._queue(name, topic))

    def found(self, name: TopicName) -> Place:
        """The one queue of a name; nothing is made."""
        topic = self.topic(name)
        return Place(name, topic, self._queue(name, topic))

    def each(self, name: TopicName) -> list[Place]:
        """All queues of a name: those of all partitions when it names a partitioned topic."""
        topic = self.topic(name)
        partitions = partitions_of(topic)
        if name.partition >= 0 or not partitions:
            return [self.found(name)]
        return [Place(name.of_partition(index), topic, topic.queue(index)) for index in range(partitions)]

    def topic(self, name: TopicName) -> Topic:
        topic = self._topics.find(name.own_name)
        if topic is None:
            raise TopicNotFound(name.full)
        return topic

    def is_there(self, place: Place) -> bool:
        """Whether it still is: a topic may be deleted, and made again, while somebody waits."""
        return self._topics.has_queue(place.queue)

    async def create(self, name: TopicName, partitions: int, properties: dict[str, str] | None = None) -> Topic:
        """A new topic, with no or some partitions; returns when it is durable."""
        attributes = {PARTITIONED: "yes" if partitions else "no", OPEN: "yes"}
        attributes |= {PROPERTY + key: value for key, value in (properties or {}).items()}
        settings = TopicSettings(write_queues=max(partitions, 1), attributes=attributes)
        return await self._topics.create(name.own_name, settings)

    def _queue(self, name: TopicName, topic: Topic) -> int:
        partitions = partitions_of(topic)
        if name.partition < 0:
            if partitions:
                why = f"{name.full} has {partitions} partitions: name one of them, as {name.of_partition(0).full}"
                raise Refused(ServerError.NotAllowedError, why)
            return topic.queue(0)
        if name.partition >= partitions:
            raise TopicNotFound(name.full)
        return topic.queue(name.partition)

    # --- lists --------------------------------------------------------------------------------------------------------

    def names_in(self, namespace: str) -> list[str]:
        """The topics of a namespace by their whole names, each partition for itself."""
        return [full for topic in self._topics for full in names_of(topic, namespace)]


def names_of(topic: Topic, namespace: str) -> list[str]:
    """What a topic contributes to the list of a namespace: nothing, itself, or its partitions."""
    name = from_own(topic.name)
    if name is None or topic.system or name.local.startswith("__") or f"{name.tenant}/{name.namespace}" != namespace:
        return []
    partitions = partitions_of(topic)
    return [name.of_partition(index).full for index in range(partitions)] if partitions else [name.full]
