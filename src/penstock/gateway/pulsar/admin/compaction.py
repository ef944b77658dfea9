"""Compaction of topics: begun, and how it went. On a topic with partitions: of all of them."""

from penstock.core.compaction import Compaction, State, Status
from penstock.errors import CompactionRunning
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.answers import done
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.admin.names import topic_of
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.admin.topics import ours
from penstock.gateway.pulsar.places import Place, Places
from penstock.model import Action

_COMPACTION = "/admin/v2/persistent/{tenant}/{namespace}/{topic}/compaction"
_WORST_FIRST = (State.RUNNING, State.ERROR, State.SUCCESS, State.NOT_RUN)  # of several partitions


class CompactionDesk:
    def __init__(self, places: Places, compaction: Compaction) -> None:
        self._places, self._compaction = places, compaction

    def routes(self) -> list[Route]:
        return [
            Route("PUT", _COMPACTION, self.start, Action.ADMIN),
            Route("GET", _COMPACTION, self.status, Action.MONITOR),
        ]

    async def start(self, asked: Asked) -> Reply:
        places = self._each(asked)
        if any(self._compaction.status(place.queue).state is State.RUNNING for place in places):
            raise CompactionRunning
        for place in places:
            self._compaction.start(place.queue)
        return done()

    async def status(self, asked: Asked) -> Reply:
        found = min((self._compaction.status(place.queue) for place in self._each(asked)), key=_rank)
        return in_json({"status": str(found.state), "lastError": found.error})

    def _each(self, asked: Asked) -> list[Place]:
        name = topic_of(asked, self._places)
        ours(name, self._places.topic(name))
        return self._places.each(name)


def _rank(status: Status) -> int:
    return _WORST_FIRST.index(status.state)
