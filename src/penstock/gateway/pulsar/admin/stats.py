"""Stats of topics: of one, of all partitions together, and of what lies below: entries and cursors.

A ledger is a queue here, and there is one for each topic or partition, for ever.
"""

from collections.abc import Container

from penstock.core.compaction import Compaction
from penstock.core.fetch import Fetcher
from penstock.core.subscriptions.cursor import Cursor
from penstock.core.subscriptions.registry import Attached, Subscriptions
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.answers import Declined
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.admin.figures import Figures, TopicFigures
from penstock.gateway.pulsar.admin.names import topic_of
from penstock.gateway.pulsar.admin.sums import summed
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.lookup import Home
from penstock.gateway.pulsar.places import Place, Places, partitions_of
from penstock.gateway.pulsar.subscribing import spot_of
from penstock.model import Action

RUNS_SHOWN_MAX = 1_000

_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"


class Stats:
    def __init__(
        self,
        places: Places,
        figures: TopicFigures,
        subscriptions: Subscriptions,
        fetcher: Fetcher,
        home: Home,
        ended: Container[int],
        compaction: Compaction,
    ) -> None:
        self._ended, self._compaction = ended, compaction
        self._places, self._figures, self._home = places, figures, home
        self._subscriptions, self._fetcher = subscriptions, fetcher

    def routes(self) -> list[Route]:
        return [
            Route("GET", f"{_TOPIC}/stats", self.stats, Action.MONITOR),
            Route("GET", f"{_TOPIC}/partitioned-stats", self.partitioned, Action.MONITOR),
            Route("GET", f"{_TOPIC}/internalStats", self.internal, Action.MONITOR),
            Route("GET", f"{_TOPIC}/partitioned-internalStats", self.partitioned_internal, Action.MONITOR),
        ]

    async def stats(self, asked: Asked) -> Reply:
        place = self._one(asked)
        figures = self._of(place, asked)
        if place.name.partition < 0:
            figures |= self._figures.rates_of(place.topic.name)
        return in_json(figures)

    async def partitioned(self, asked: Asked) -> Reply:
        places = self._all(asked)
        several = {place.name.full: self._of(place, asked) for place in places}
        figures = summed(list(several.values())) | self._figures.rates_of(places[0].topic.name)
        figures["metadata"] = {"partitions": len(places), "deleted": False}
        figures["partitions"] = several if asked.flag("perPartition", default=True) else {}
        return in_json(figures)

    def _of(self, place: Place, asked: Asked) -> Figures:
        publishers, consumers = not asked.flag("excludePublishers"), not asked.flag("excludeConsumers")
        figures = self._figures.of_queue(place, self._home.http_address_for(asked.host), publishers, consumers)
        return figures | self._compaction_of(place.queue)

    def _compaction_of(self, queue: int) -> Figures:
        view, status = self._compaction.view(queue), self._compaction.status(queue)
        told: Figures = {"lastCompactionFailedTimestamp": status.failed_ms} if status.failed_ms else {}
        if view is not None:
            told["lastCompactionSucceedTimestamp"] = view.at_ms
            told["lastCompactionRemovedEventCount"] = view.removed
            told["lastCompactionDurationTimeInMills"] = view.took_ms
        return {"compaction": told} if told else {}

    async def internal(self, asked: Asked) -> Reply:
        return in_json(self._internal(self._one(asked)))

    async def partitioned_internal(self, asked: Asked) -> Reply:
        places = self._all(asked)
        partitions = {place.name.full: self._internal(place) for place in places}
        return in_json({"metadata": {"partitions": len(places), "deleted": False}, "partitions": partitions})

    def _one(self, asked: Asked) -> Place:
        name = topic_of(asked, self._places)
        topic = self._places.topic(name)
        if name.partition < 0 and partitions_of(topic):
            raise Declined(404, f"{name.full} has partitions: ask for one of them, or for partitioned-stats")
        return self._places.found(name)

    def _all(self, asked: Asked) -> list[Place]:
        name = topic_of(asked, self._places)
        if name.partition >= 0 or not partitions_of(self._places.topic(name)):
            raise Declined(404, f"{name.full} is not a topic with partitions: ask for stats")
        return self._places.each(name)

    # --- what lies below ----------------------------------------------------------------------------------------------

    def _internal(self, place: Place) -> Figures:
        queue = place.queue
        (first, behind), size_bytes = self._fetcher.rows(queue), self._fetcher.size_bytes(queue)
        ledger = {"ledgerId": queue, "entries": behind - first, "size": size_bytes, "offloaded": False}
        several = self._subscriptions.of(spot_of(place))
        return {
            "entriesAddedCounter": behind,
            "numberOfEntries": behind - first,
            "totalSize": size_bytes,
            "currentLedgerEntries": behind - first,
            "currentLedgerSize": size_bytes,
            "lastConfirmedEntry": f"{queue}:{behind - 1}",
            "state": "Terminated" if queue in self._ended else "LedgerOpened",
            "ledgers": [ledger],
            "cursors": {each.subscription.name: cursor_figures(each) for each in several},
            "schemaLedgers": [],
            "compactedLedger": self._compacted_ledger(queue),
        }

    def _compacted_ledger(self, queue: int) -> Figures:
        """What is left of the keys; -1 when it was never compacted."""
        view = self._compaction.view(queue)
        if view is None:
            return {"ledgerId": -1, "entries": -1, "size": -1, "offloaded": False}
        first, behind = self._fetcher.rows(view.queue)
        size_bytes = self._fetcher.size_bytes(view.queue)
        return {"ledgerId": view.queue, "entries": behind - first, "size": size_bytes, "offloaded": False}


def cursor_figures(attached: Attached) -> Figures:
    subscription, queue = attached.subscription, attached.queue
    cursor = subscription.cursor
    read_row = max(subscription.read_row, cursor.mark)
    return {
        "markDeletePosition": f"{queue}:{cursor.mark - 1}",
        "readPosition": f"{queue}:{read_row}",
        "individuallyDeletedMessages": runs_in_words(cursor, queue),
        "state": "Open",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": read_row - cursor.mark,
        "totalNonContiguousDeletedMessagesRange": len(cursor.runs),
        "properties": cursor.properties,
    }


def runs_in_words(cursor: Cursor, queue: int) -> str:
    """`[(7:1..7:3],(7:5..7:6]]`: entries 2, 3 and 6 of ledger 7 are acknowledged beyond the mark."""
    runs = cursor.runs
    shown = [f"({queue}:{first - 1}..{queue}:{behind - 1}]" for first, behind in runs[:RUNS_SHOWN_MAX]]
    return "[" + ",".join(shown + (["..."] if len(runs) > RUNS_SHOWN_MAX else [])) + "]"
