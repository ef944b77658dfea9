"""Cursors moved by hand: skipped, expired, reset.

What is skipped or expired counts as acknowledged, while consumers go on. A reset goes anywhere, so that consumers are
sent away and come again, as after a seek of their own.
"""

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.core.fetch import Fetcher
from penstock.core.namespaces import Namespaces
from penstock.core.subscriptions.registry import Attached, Subscriptions
from penstock.gateway.http.messages import Reply
from penstock.gateway.pulsar.admin.answers import done
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.admin.names import namespace_of, topic_of
from penstock.gateway.pulsar.admin.positions import Position, position_in, row_of
from penstock.gateway.pulsar.admin.subscriptions import SubscriptionsDesk
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.places import Places
from penstock.gateway.pulsar.seek import Seek
from penstock.gateway.pulsar.subscribing import spot_of
from penstock.model import Action
from penstock.wire.pulsar.topics import topic_name

_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
_CLEAR = "/admin/v2/namespaces/{tenant}/{namespace}/clearBacklog"
_ONE = f"{_TOPIC}/subscription/{{subscription}}"


class Cursors:
    def __init__(
        self,
        places: Places,
        namespaces: Namespaces,
        desk: SubscriptionsDesk,
        subscriptions: Subscriptions,
        fetcher: Fetcher,
        seek: Seek,
        clock: Clock,
    ) -> None:
        self._places, self._desk, self._subscriptions = places, desk, subscriptions
        self._fetcher, self._seek, self._clock, self._namespaces = fetcher, seek, clock, namespaces

    def routes(self) -> list[Route]:
        return [
            Route("POST", f"{_ONE}/skip/{{count}}", self.skip, Action.CONSUME),
            Route("POST", f"{_ONE}/skip_all", self.skip_all, Action.CONSUME),
            Route("POST", f"{_ONE}/expireMessages/{{seconds}}", self.expire, Action.CONSUME),
            Route("POST", f"{_ONE}/expireMessages", self.expire_to, Action.CONSUME),
            Route("POST", f"{_TOPIC}/all_subscription/expireMessages/{{seconds}}", self.expire_all, Action.CONSUME),
            Route("POST", _CLEAR, self.clear, Action.CONSUME),
            Route("POST", f"{_CLEAR}/{{subscription}}", self.clear, Action.CONSUME),
            Route("POST", f"{_ONE}/resetcursor/{{timestamp}}", self.reset_to_time, Action.CONSUME),
            Route("POST", f"{_ONE}/resetcursor", self.reset, Action.CONSUME),
        ]

    def _one(self, asked: Asked) -> Attached:
        """What is told in messages of one queue does not go for all partitions."""
        self._places.found(topic_of(asked, self._places))
        return self._desk.found(asked)[0]

    # --- forward ------------------------------------------------------------------------------------------------------

    async def skip(self, asked: Asked) -> Reply:
        """The next N entries that are not acknowledged."""
        attached = self._one(asked)
        first, _ = self._fetcher.rows(attached.queue)
        self._pass_over(attached, attached.subscription.cursor.behind(asked.number("count"), first))
        return done()

    async def skip_all(self, asked: Asked) -> Reply:
        for attached in self._desk.found(asked):
            self._pass_over(attached, self._fetcher.rows(attached.queue)[1])
        return done()

    async def clear(self, asked: Asked) -> Reply:
        """In all topics of a namespace: one subscription, or all."""
        only = asked.parts.get("subscription")
        for full in self._places.names_in(namespace_of(asked, self._namespaces, self._places)):
            place = self._places.found(topic_name(full))
            for attached in self._subscriptions.of(spot_of(place)):
                if only in (None, attached.subscription.name):
                    self._pass_over(attached, self._fetcher.rows(place.queue)[1])
        return done()

    async def expire(self, asked: Asked) -> Reply:
        """What is older than so many seconds."""
        time_ms = self._before(asked)
        for attached in self._desk.found(asked):
            self._pass_over(attached, self._fetcher.row_at_time(attached.queue, time_ms))
        return done()

    async def expire_all(self, asked: Asked) -> Reply:
        time_ms = self._before(asked)
        for place in self._places.each(topic_of(asked, self._places)):
            for attached in self._subscriptions.of(spot_of(place)):
                self._pass_over(attached, self._fetcher.row_at_time(place.queue, time_ms))
        return done()

    async def expire_to(self, asked: Asked) -> Reply:
        """Everything up to a message, and that one too unless it is excluded."""
        position, attached = position_in(asked), self._one(asked)
        behind = replace(position, is_excluded=not position.is_excluded)
        self._pass_over(attached, row_of(behind, attached.queue, self._fetcher))
        return done()

    def _before(self, asked: Asked) -> int:
        return max(0, self._clock.now_ms() - 1_000 * asked.number("seconds"))

    def _pass_over(self, attached: Attached, row: int) -> None:
        """What is below `row` is done. Never backwards, and not beyond the last entry."""
        attached.subscription.ack_until(min(row, self._fetcher.rows(attached.queue)[1]))
        self._subscriptions.touch(attached)
        attached.feeder.wake()

    # --- anywhere -----------------------------------------------------------------------------------------------------

    async def reset_to_time(self, asked: Asked) -> Reply:
        time_ms = asked.number("timestamp")
        for attached in self._desk.found(asked):
            self._seek.move(attached, self._fetcher.row_at_time(attached.queue, time_ms))
        return done()

    async def reset(self, asked: Asked) -> Reply:
        position, attached = position_in(asked), self._one(asked)
        if position.batch_index < 0:
            self._seek.move(attached, row_of(position, attached.queue, self._fetcher))
        else:
            self._reset_into(attached, position)
        return done()

    def _reset_into(self, attached: Attached, position: Position) -> None:
        """To a message within a batch: the entry goes out, and of it what is before the message counts as done."""
        queue = attached.queue
        row = row_of(replace(position, is_excluded=False), queue, self._fetcher)
        self._seek.move(attached, row)
        count = self._fetcher.messages_in(queue, row)
        passed = min(count, position.batch_index + position.is_excluded)
        if passed and (queue, row) == (position.ledger_id, position.entry_id):
            attached.subscription.ack_part(row, (1 << count) - (1 << passed), count)
