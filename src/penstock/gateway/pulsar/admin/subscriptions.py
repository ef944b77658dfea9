"""Subscriptions: listed, made and deleted. On a topic with partitions, that is on all of them."""

from penstock.core.fetch import Fetcher
from penstock.core.subscriptions.registry import Attached, Subscriptions
from penstock.core.subscriptions.subscription import Style
from penstock.errors import SubscriptionExists, SubscriptionNotFound
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.answers import Declined, done
from penstock.gateway.pulsar.admin.asked import WORDS, Asked
from penstock.gateway.pulsar.admin.names import topic_of
from penstock.gateway.pulsar.admin.positions import LATEST, Position, position_in, row_of
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.admin.topics import checked, ours
from penstock.gateway.pulsar.consumers import ConsumerDesk
from penstock.gateway.pulsar.places import Place, Places
from penstock.gateway.pulsar.subscribing import Subscribing, check_name, spot_of
from penstock.model import Action
from penstock.wire.pulsar.topics import TopicName

_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
_ONE = f"{_TOPIC}/subscription/{{subscription}}"


class SubscriptionsDesk:
    def __init__(
        self,
        places: Places,
        subscribing: Subscribing,
        subscriptions: Subscriptions,
        consumers: ConsumerDesk,
        fetcher: Fetcher,
    ) -> None:
        self._places, self._subscribing, self._subscriptions = places, subscribing, subscriptions
        self._consumers, self._fetcher = consumers, fetcher

    def routes(self) -> list[Route]:
        return [
            Route("GET", f"{_TOPIC}/subscriptions", self.listed, Action.MONITOR),
            Route("PUT", _ONE, self.create, Action.CONSUME),
            Route("DELETE", _ONE, self.delete, Action.CONSUME),
            Route("GET", f"{_ONE}/properties", self.properties, Action.MONITOR),
            Route("PUT", f"{_ONE}/properties", self.set_properties, Action.CONSUME),
        ]

    async def listed(self, asked: Asked) -> Reply:
        places = self._places.each(topic_of(asked, self._places))
        return in_json(
            sorted({each.subscription.name for place in places for each in self._subscriptions.of(spot_of(place))})
        )

    # --- making -------------------------------------------------------------------------------------------------------

    async def create(self, asked: Asked) -> Reply:
        """Where it is lacking; the topic is made where clients may make topics."""
        name, subscription = topic_of(asked, self._places), asked["subscription"]
        check_name(subscription)
        if asked.flag("replicated"):
            raise Declined(405, "there is one cluster, and no subscription is copied to others")
        position = position_in(asked, LATEST)
        places = await self._made(name)
        lacking = [place for place in places if self._subscriptions.find(spot_of(place), subscription) is None]
        if not lacking:
            raise SubscriptionExists(subscription, name.full)
        for place in lacking:
            self._subscribing.check_room(place)
        for place in lacking:
            await self._create(place, subscription, position)
        return done()

    async def _made(self, name: TopicName) -> list[Place]:
        if not await self._places.partitions(name, may_create=True):
            place = await self._places.place(name)
            ours(name, place.topic)
            return [place]
        places = self._places.each(name)
        ours(name, places[0].topic)
        return places

    async def _create(self, place: Place, name: str, position: Position) -> None:
        row = row_of(position, place.queue, self._fetcher)
        await self._subscriptions.create(spot_of(place), name, row, Style(), checked(position.properties or {}))

    # --- deleting -----------------------------------------------------------------------------------------------------

    async def delete(self, asked: Asked) -> Reply:
        found = self.found(asked)
        if not asked.flag("force") and any(each.subscription.consumers for each in found):
            raise Declined(412, f"Subscription {asked['subscription']} has active connected consumers")
        for attached in found:
            self._consumers.send_away(attached)
            await self._subscriptions.delete(attached)
        return done()

    def found(self, asked: Asked) -> list[Attached]:
        """The subscription on all partitions that have it; one at least."""
        name, subscription = topic_of(asked, self._places), asked["subscription"]
        places = self._places.each(name)
        found = [self._subscriptions.find(spot_of(place), subscription) for place in places]
        there = [attached for attached in found if attached is not None]
        if not there:
            raise SubscriptionNotFound(subscription, name.full)
        return there

    # --- properties ---------------------------------------------------------------------------------------------------

    async def properties(self, asked: Asked) -> Reply:
        return in_json(self.found(asked)[0].properties)

    async def set_properties(self, asked: Asked) -> Reply:
        properties = checked(asked.body(WORDS, {}))
        found = self.found(asked)
        if not all(attached.durable for attached in found):
            raise Declined(405, "a subscription that is not durable has no properties to be kept")
        for attached in found:
            await self._subscriptions.set_properties(attached, dict(properties))
        return done()
