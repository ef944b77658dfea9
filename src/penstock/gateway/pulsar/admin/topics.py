"""Topics: lists of them, and made, grown and deleted, with or without partitions.

A topic that RocketMQ's clients made is shown here, and not changed.
"""

import msgspec

from penstock.core.namespaces import Namespaces
from penstock.core.producers import Producers
from penstock.core.subscriptions.registry import Attached, Subscriptions
from penstock.core.subscriptions.subscription import Style
from penstock.core.topics import Topic, Topics, TopicSettings
from penstock.errors import PenstockError, ProducerBusy, TopicExists
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.answers import Declined, done
from penstock.gateway.pulsar.admin.asked import WORDS, Asked
from penstock.gateway.pulsar.admin.names import namespace_of, topic_of
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.consumers import ConsumerDesk
from penstock.gateway.pulsar.places import Place, Places, partitions_of, properties_of
from penstock.gateway.pulsar.routes import Refused
from penstock.gateway.pulsar.subscribing import spot_of
from penstock.model import Action
from penstock.wire.pulsar.commands_pb2 import ServerError
from penstock.wire.pulsar.topics import TopicName, from_own

PROPERTIES_CHARS_MAX = 16_384

_LIST = "/admin/v2/{}/{{tenant}}/{{namespace}}"
_NAMESPACE = _LIST.format("persistent")
_TOPIC = f"{_NAMESPACE}/{{topic}}"
_POLICIES = "/admin/v2/namespaces/{tenant}/{namespace}"
BUNDLE = "0x00000000_0xffffffff"  # the one that there is: all names


class Partitions(msgspec.Struct):
    """How many, as clients say it when they want to say more than the number."""

    partitions: int
    properties: dict[str, str] | None = None


_DECODER: msgspec.json.Decoder[int | Partitions] = msgspec.json.Decoder(int | Partitions)


class TopicsDesk:
    def __init__(
        self,
        topics: Topics,
        namespaces: Namespaces,
        places: Places,
        producers: Producers,
        subscriptions: Subscriptions,
        consumers: ConsumerDesk,
        partitions_max: int,
    ) -> None:
        self._topics, self._namespaces, self._places, self._producers = topics, namespaces, places, producers
        self._subscriptions, self._consumers, self._partitions_max = subscriptions, consumers, partitions_max

    def routes(self) -> list[Route]:
        volatile = _LIST.format("non-persistent")
        return [
            Route("GET", f"{_POLICIES}/topics", self.of_namespace, Action.LOOKUP),
            Route("GET", _NAMESPACE, self.listed, Action.MONITOR),
            Route("GET", f"{_NAMESPACE}/partitioned", self.partitioned, Action.MONITOR),
            Route("GET", volatile, self.volatile, Action.MONITOR),
            Route("GET", f"{volatile}/partitioned", self.volatile, Action.MONITOR),
            Route("PUT", _TOPIC, self.create, Action.ADMIN),
            Route("DELETE", _TOPIC, self.delete, Action.ADMIN),
            Route("GET", f"{_TOPIC}/properties", self.properties, Action.MONITOR),
            Route("GET", f"{_TOPIC}/partitions", self.partitions, Action.LOOKUP),
            Route("PUT", f"{_TOPIC}/partitions", self.create_partitioned, Action.ADMIN),
            Route("POST", f"{_TOPIC}/partitions", self.grow, Action.ADMIN),
            Route("DELETE", f"{_TOPIC}/partitions", self.delete_partitioned, Action.ADMIN),
            Route("POST", f"{_TOPIC}/createMissedPartitions", self.complete, Action.ADMIN),
            Route("PUT", f"{_TOPIC}/unload", self.unload, Action.ADMIN),
            Route("PUT", f"{_POLICIES}/unload", self.unload_namespace, Action.ADMIN),
            Route("PUT", f"{_POLICIES}/{{bundle}}/unload", self.unload_bundle, Action.ADMIN),
        ]

    # --- lists --------------------------------------------------------------------------------------------------------

    async def of_namespace(self, asked: Asked) -> Reply:
        mode = asked.query.get("mode", "ALL").upper()
        names = self._places.names_in(namespace_of(asked, self._namespaces, self._places))
        return in_json([] if mode == "NON_PERSISTENT" else names)

    async def listed(self, asked: Asked) -> Reply:
        return in_json(self._places.names_in(namespace_of(asked, self._namespaces, self._places)))

    async def partitioned(self, asked: Asked) -> Reply:
        namespace = namespace_of(asked, self._namespaces, self._places)
        named = [(from_own(topic.name), topic) for topic in self._topics if not topic.system and partitions_of(topic)]
        return in_json([name.full for name, _ in named if name and f"{name.tenant}/{name.namespace}" == namespace])

    async def volatile(self, asked: Asked) -> Reply:
        """There are no topics that are not persistent."""
        namespace_of(asked, self._namespaces, self._places)
        return in_json([])

    async def properties(self, asked: Asked) -> Reply:
        return in_json(properties_of(self._places.topic(topic_of(asked, self._places))))

    async def partitions(self, asked: Asked) -> Reply:
        name = topic_of(asked, self._places)
        found = await self._places.partitions(name, asked.flag("checkAllowAutoCreation"))
        topic = self._topics.find(name.own_name) if found else None
        properties = properties_of(topic) if topic else {}
        return in_json({"partitions": found, "deleted": False, "properties": properties or None})

    # --- making -------------------------------------------------------------------------------------------------------

    async def create(self, asked: Asked) -> Reply:
        name = topic_of(asked, self._places)
        properties = checked(asked.body(WORDS, {}))
        if name.partition >= 0:
            self._places.found(name)
            raise TopicExists(name.full)
        await self._create(name, 0, properties)
        return done()

    async def create_partitioned(self, asked: Asked) -> Reply:
        name = self._whole(asked)
        wanted = self._wanted(asked)
        await self._create(name, wanted.partitions, checked(wanted.properties or {}))
        return done()

    async def _create(self, name: TopicName, partitions: int, properties: dict[str, str]) -> None:
        if self._topics.find(name.own_name) is not None:
            raise TopicExists(name.full)
        await self._places.create(name, partitions, properties)

    async def complete(self, asked: Asked) -> Reply:
        """All partitions of a topic are made with it: none is missing."""
        self._partitioned(self._whole(asked))
        return done()

    # --- growing ------------------------------------------------------------------------------------------------------

    async def grow(self, asked: Asked) -> Reply:
        """More partitions, on which all subscriptions are there from the first message on."""
        name = self._whole(asked)
        wanted, topic = self._wanted(asked).partitions, ours(name, self._places.topic(name))
        before = partitions_of(topic)
        if not before:
            raise Declined(409, f"{name.full} is not partitioned, and cannot become so: make another topic")
        if wanted <= before:
            raise Declined(422, f"{name.full} has {before} partitions: their number only grows, to more than that")
        kept = [each for each in self._subscriptions.of(spot_of(self._places.each(name)[0])) if each.durable]
        await self._topics.alter(topic.name, TopicSettings(read_queues=wanted, write_queues=wanted))
        for place in self._places.each(name)[before:]:
            await self._subscribe(place, kept)
        return done()

    async def _subscribe(self, place: Place, subscriptions: list[Attached]) -> None:
        for attached in subscriptions:
            subscription = attached.subscription
            if self._subscriptions.find(spot_of(place), subscription.name) is None:
                await self._subscriptions.create(
                    spot_of(place), subscription.name, 0, Style(), dict(attached.properties)
                )

    def _whole(self, asked: Asked) -> TopicName:
        name = topic_of(asked, self._places)
        if name.partition >= 0:
            raise Declined(412, f"{name.full} is the name of a partition: name the topic")
        return name

    def _wanted(self, asked: Asked) -> Partitions:
        body = asked.body(_DECODER, 0)
        wanted = Partitions(body) if isinstance(body, int) else body
        if wanted.partitions <= 0:
            raise Declined(412, "the body is the number of partitions, of 1 or more")
        if wanted.partitions > self._partitions_max:
            why = f"a topic has at most {self._partitions_max} partitions here (broker.topic_queues_max)"
            raise Declined(406, why)
        return wanted

    # --- deleting -----------------------------------------------------------------------------------------------------

    async def delete(self, asked: Asked) -> Reply:
        name = topic_of(asked, self._places)
        place = self._places.found(name)  # a topic with partitions is refused here
        if name.partition >= 0:
            raise Declined(405, f"{name.full} is a partition: a topic is deleted with all of them (.../partitions)")
        await self._delete(ours(name, place.topic), [place], asked.flag("force"))
        return done()

    async def delete_partitioned(self, asked: Asked) -> Reply:
        name = self._whole(asked)
        topic = self._partitioned(name)
        await self._delete(ours(name, topic), self._places.each(name), asked.flag("force"))
        return done()

    async def _delete(self, topic: Topic, places: list[Place], force: bool) -> None:
        """With all its subscriptions. Nothing comes between looking and deleting: whoever comes later finds none."""
        if not force and any(self._is_in_use(place) for place in places):
            raise Declined(412, "Topic has active producers/subscriptions")  # as clients know it
        for place in places:
            self._send_away(place, ProducerBusy(f"{place.name.full} is being deleted"))
        await self._topics.delete(topic.name)

    def _is_in_use(self, place: Place) -> bool:
        if self._producers.at(place.queue) or self._producers.waiting_at(place.queue):
            return True
        return any(each.subscription.consumers for each in self._subscriptions.of(spot_of(place)))

    async def unload(self, asked: Asked) -> Reply:
        """There is no other broker to go to: whoever is connected comes again, as if it had moved."""
        self._unload(topic_of(asked, self._places))
        return done()

    async def unload_namespace(self, asked: Asked) -> Reply:
        for name, _ in self._in(namespace_of(asked, self._namespaces, self._places)):
            self._unload(name)
        return done()

    async def unload_bundle(self, asked: Asked) -> Reply:
        if asked["bundle"] != BUNDLE:
            raise Declined(404, f"a namespace has one bundle here, and it is {BUNDLE}")
        return await self.unload_namespace(asked)

    def _unload(self, name: TopicName) -> None:
        for place in self._places.each(name):
            self._send_away(place, Refused(ServerError.ServiceNotReady, f"{place.name.full} is being unloaded"))

    def _send_away(self, place: Place, why: PenstockError) -> None:
        for attached in self._subscriptions.of(spot_of(place)):
            self._consumers.send_away(attached)
        self._producers.send_away(place.queue, why)

    def _partitioned(self, name: TopicName) -> Topic:
        topic = self._places.topic(name)
        if not partitions_of(topic):
            raise Declined(404, f"{name.full} is not partitioned")
        return topic

    async def delete_all(self, namespace: str) -> None:
        """All topics of a namespace, whoever uses them."""
        for name, topic in self._in(namespace):
            await self._delete(topic, self._places.each(name), force=True)

    def _in(self, namespace: str) -> list[tuple[TopicName, Topic]]:
        """The topics of a namespace, without the broker's own."""
        named = [(from_own(topic.name), topic) for topic in self._topics if not topic.system]
        return [(name, topic) for name, topic in named if name and f"{name.tenant}/{name.namespace}" == namespace]


def ours(name: TopicName, topic: Topic) -> Topic:
    if topic.system:
        raise Declined(405, f"{name.base} is the broker's own")
    return topic


def checked(properties: dict[str, str]) -> dict[str, str]:
    if sum(len(key) + len(value) for key, value in properties.items()) > PROPERTIES_CHARS_MAX:
        raise Declined(412, f"the properties of a topic have at most {PROPERTIES_CHARS_MAX} characters")
    return properties
