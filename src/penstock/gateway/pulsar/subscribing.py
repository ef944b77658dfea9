"""Which subscription a consumer joins, and where a new one begins.

A durable subscription that exists wins over the position in the request; a new one begins where the request says. One
that is not durable always begins there, and is gone with its last consumer. When a seek has sent that consumer away, it
stays where the seek has put it: a client that comes back may name the place of an earlier seek.
"""

from penstock.clock import Clock
from penstock.core.fetch import Fetcher
from penstock.core.policies import PolicyBook
from penstock.core.subscriptions import registry
from penstock.core.subscriptions.registry import Attached, Subscriptions
from penstock.core.subscriptions.subscription import Style
from penstock.gateway.pulsar.places import Place
from penstock.gateway.pulsar.positions import start_row
from penstock.gateway.pulsar.routes import Refused
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import ServerError

RESERVED = ("pulsar.repl", "pulsar.dedup")
NAME_CHARS_MAX = 1_024
PROPERTIES_CHARS_MAX = 16_384


class Subscribing:
    def __init__(self, subscriptions: Subscriptions, fetcher: Fetcher, clock: Clock, policies: PolicyBook) -> None:
        self._subscriptions, self._fetcher, self._clock, self._policies = subscriptions, fetcher, clock, policies

    async def attached(self, asked: pb.CommandSubscribe, place: Place, style: Style) -> Attached:
        """What a consumer joins, made if need be."""
        there = spot_of(place)
        found = self._subscriptions.find(there, asked.subscription)
        if found is None:
            row = start_row(asked, place.queue, self._fetcher, self._clock.now_ms())
            if not asked.durable:
                return self._subscriptions.create_transient(there, asked.subscription, row, style)
            if not self._policies.applied(place.topic.name).subscription_creation:
                raise Refused(ServerError.SubscriptionNotFound, "Subscription does not exist")
            self.check_room(place)
            return await self._subscriptions.create(there, asked.subscription, row, style, properties_of(asked))
        if found.durable != asked.durable:
            word = "durable" if found.durable else "not durable"
            raise Refused(ServerError.NotAllowedError, f"subscription {asked.subscription!r} is {word}")
        self._move(found, asked)
        await self._subscriptions.settled()
        return found

    def check_room(self, place: Place) -> None:
        """Whether a topic may have one more subscription."""
        limit = self._policies.applied(place.topic.name).subscriptions_max
        if limit and sum(each.durable for each in self._subscriptions.of(spot_of(place))) >= limit:
            why = f"Exceed the maximum number of subscriptions of the topic, which is {limit}"
            raise Refused(ServerError.NotAllowedError, why)

    def _move(self, found: Attached, asked: pb.CommandSubscribe) -> None:
        """The little that a request changes of one that is there."""
        if asked.start_message_rollback_duration_sec:
            time_ms = self._clock.now_ms() - 1_000 * asked.start_message_rollback_duration_sec
            found.subscription.seek(self._fetcher.row_at_time(found.queue, max(0, time_ms)))
            self._subscriptions.touch(found)

    async def first(self, name: str, place: Place) -> None:
        """One that a producer wants to be there, from the beginning on: for dead letters that nobody reads yet."""
        there = spot_of(place)
        if self._subscriptions.find(there, name) is None:
            check_name(name)
            if not self._policies.applied(place.topic.name).subscription_creation:
                why = f"subscription {name!r} is not there, none is made by itself (pulsar.auto_create_subscriptions)"
                raise Refused(ServerError.NotAllowedError, why)
            self.check_room(place)
            await self._subscriptions.create(there, name, self._fetcher.rows(place.queue)[0], Style())


def spot_of(place: Place) -> registry.Place:
    return registry.Place(place.queue, place.name.full, place.name.partition)


def check_name(name: str | bytes) -> None:
    if isinstance(name, bytes) or not name.strip() or name.startswith(RESERVED) or len(name) > NAME_CHARS_MAX:
        # Pulsar's own code for it, odd as it is: clients know it.
        raise Refused(ServerError.ProducerBusy, f"{name!r} cannot be a subscription's name: it is empty or reserved")


def properties_of(asked: pb.CommandSubscribe) -> dict[str, str]:
    properties = {pair.key: pair.value for pair in asked.subscription_properties}
    if sum(len(key) + len(value) for key, value in properties.items()) > PROPERTIES_CHARS_MAX:
        raise Refused(ServerError.NotAllowedError, f"a subscription's properties have at most {PROPERTIES_CHARS_MAX}")
    return properties
