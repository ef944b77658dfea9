"""Messages looked at without a consumer, and where they are: peek, examine, by id; the last id, the id at a time."""

import asyncio

from penstock.core.fetch import Fetcher
from penstock.core.topics import READ
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.answers import Declined
from penstock.gateway.pulsar.admin.asked import Asked, whole
from penstock.gateway.pulsar.admin.names import topic_of
from penstock.gateway.pulsar.admin.peeked import reply_of
from penstock.gateway.pulsar.admin.subscriptions import SubscriptionsDesk
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.foreign import as_entry
from penstock.gateway.pulsar.places import Place, Places
from penstock.model import Action
from penstock.wire.pulsar.entry import metadata_in

_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"


class Messages:
    def __init__(self, places: Places, desk: SubscriptionsDesk, fetcher: Fetcher) -> None:
        self._places, self._desk, self._fetcher = places, desk, fetcher

    def routes(self) -> list[Route]:
        return [
            Route("GET", f"{_TOPIC}/subscription/{{subscription}}/position/{{number}}", self.peek, Action.CONSUME),
            Route("GET", f"{_TOPIC}/examinemessage", self.examine, Action.CONSUME),
            Route("GET", f"{_TOPIC}/ledger/{{ledger}}/entry/{{entry}}", self.by_id, Action.CONSUME),
            Route("GET", f"{_TOPIC}/messageid/{{timestamp}}", self.at_time, Action.MONITOR),
            Route("GET", f"{_TOPIC}/lastMessageId", self.last, Action.MONITOR),
        ]

    # --- whole messages -----------------------------------------------------------------------------------------------

    async def peek(self, asked: Asked) -> Reply:
        """The nth entry that a subscription has not acknowledged; the first has number 1."""
        place = self._place(asked)
        cursor = self._desk.found(asked)[0].subscription.cursor
        first, _ = self._fetcher.rows(place.queue)
        passed = asked.number("number", at_least=1) - 1
        return await self._entry(place, cursor.next_unacked(cursor.behind(passed, first)))

    async def examine(self, asked: Asked) -> Reply:
        """The nth entry of the topic, from either end."""
        place = self._place(asked)
        first, behind = self._fetcher.rows(place.queue)
        number = whole(asked.query.get("messagePosition", "1"), "messagePosition", at_least=1)
        end = asked.query.get("initialPosition", "latest").lower()
        if end not in ("latest", "earliest"):
            raise Declined(412, "initialPosition is latest or earliest")
        return await self._entry(place, behind - number if end == "latest" else first + number - 1)

    async def by_id(self, asked: Asked) -> Reply:
        place = self._place(asked)
        row = asked.number("entry") if asked.number("ledger") == place.queue else -1
        return await self._entry(place, row)

    def _place(self, asked: Asked) -> Place:
        place = self._places.found(topic_of(asked, self._places))
        if place.topic.system or not place.topic.permissions & READ:
            raise Declined(405, f"{place.name.full} may not be read: it is the broker's own, or has no permission")
        return place

    async def _entry(self, place: Place, row: int) -> Reply:
        first, behind = self._fetcher.rows(place.queue)
        batch = await self._fetcher.fetch_rows(place.queue, row, 1, 1) if first <= row < behind else None
        if batch is None or not batch.payloads:
            raise Declined(404, f"there is no such message in {place.name.full}")
        return await asyncio.to_thread(_shown, batch.payloads[0], place.queue, row)  # opening takes its time

    # --- where they are -----------------------------------------------------------------------------------------------

    async def at_time(self, asked: Asked) -> Reply:
        """The first message that was stored at that time or later; where the next will be, when there is none."""
        place = self._places.found(topic_of(asked, self._places))
        return in_json(id_of(place, self._fetcher.row_at_time(place.queue, asked.number("timestamp"))))

    async def last(self, asked: Asked) -> Reply:
        place = self._places.found(topic_of(asked, self._places))
        first, behind = self._fetcher.rows(place.queue)
        if behind == first:
            return in_json({"ledgerId": -1, "entryId": -1, "partitionIndex": place.name.partition})
        found = id_of(place, behind - 1)
        batch = await self._fetcher.fetch_rows(place.queue, behind - 1, 1, 1)
        metadata = metadata_in(as_entry(batch.payloads[0]), check=False)[0] if batch.payloads else None
        if metadata is not None and metadata.HasField("num_messages_in_batch"):
            found["batchIndex"] = metadata.num_messages_in_batch - 1
        return in_json(found)


def _shown(payload: memoryview, queue: int, row: int) -> Reply:
    return reply_of(as_entry(payload), queue, row)


def id_of(place: Place, row: int) -> dict[str, int]:
    return {"ledgerId": place.queue, "entryId": row, "partitionIndex": place.name.partition}
