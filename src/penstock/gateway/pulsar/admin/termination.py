"""Topics are terminated: producers are sent away, nothing more is taken, and consumers hear of the end when they have
acknowledged everything.
"""

from penstock.core.endings import Endings
from penstock.core.fetch import Fetcher
from penstock.core.producers import Producers
from penstock.core.subscriptions.registry import Subscriptions
from penstock.errors import TopicTerminated
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.answers import Declined
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.admin.messages import id_of
from penstock.gateway.pulsar.admin.names import topic_of
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.admin.topics import ours
from penstock.gateway.pulsar.places import Place, Places, partitions_of
from penstock.gateway.pulsar.subscribing import spot_of
from penstock.model import Action

_TERMINATE = "/admin/v2/persistent/{tenant}/{namespace}/{topic}/terminate"


class Termination:
    def __init__(
        self,
        places: Places,
        endings: Endings,
        producers: Producers,
        subscriptions: Subscriptions,
        fetcher: Fetcher,
    ) -> None:
        self._places, self._endings, self._producers = places, endings, producers
        self._subscriptions, self._fetcher = subscriptions, fetcher

    def routes(self) -> list[Route]:
        return [
            Route("POST", _TERMINATE, self.terminate, Action.ADMIN),
            Route("POST", f"{_TERMINATE}/partitions", self.terminate_all, Action.ADMIN),
        ]

    async def terminate(self, asked: Asked) -> Reply:
        """A topic without partitions, or one partition; its last message's id."""
        name = topic_of(asked, self._places)
        if name.partition < 0 and partitions_of(self._places.topic(name)):
            raise Declined(405, "Termination of a partitioned topic is not allowed: use .../terminate/partitions")
        place = self._places.found(name)
        await self._end([place])
        return in_json(self._last(place))

    async def terminate_all(self, asked: Asked) -> Reply:
        """All partitions; the last id of each by its number."""
        name = topic_of(asked, self._places)
        if name.partition >= 0 or not partitions_of(self._places.topic(name)):
            raise Declined(405, f"{name.full} is not a topic with partitions: use .../terminate")
        places = self._places.each(name)
        await self._end(places)
        return in_json({str(place.name.partition): self._last(place) for place in places})

    async def _end(self, places: list[Place]) -> None:
        ours(places[0].name, places[0].topic)
        await self._endings.end([place.queue for place in places])
        for place in places:
            self._producers.send_away(place.queue, TopicTerminated())
            for attached in self._subscriptions.of(spot_of(place)):
                attached.feeder.wake()

    def _last(self, place: Place) -> dict[str, int]:
        return id_of(place, self._fetcher.rows(place.queue)[1] - 1)
