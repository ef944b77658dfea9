"""What is kept back and comes later: delayed messages, timers, half messages; and the tasks that see to them."""

from collections.abc import Awaitable, Callable, Iterable

from penstock.clock import Clock
from penstock.config import RocketmqConfig
from penstock.core import delays, timers
from penstock.core.broker import Broker
from penstock.core.delays import Delays
from penstock.core.halves import HalfLimits, Halves
from penstock.core.ticker import Ticker
from penstock.core.timers import Timers
from penstock.gateway.rocketmq.delay import LEVELS_MS, Placer, Reviver, schedule_topic, timer_topic
from penstock.gateway.rocketmq.transactions import HALF_TOPIC, NOTES_TOPIC, given_up_topic, half_of, hidden_topic
from penstock.wire.rocketmq.codes import SysFlag
from penstock.wire.rocketmq.record import Record

Tick = Callable[[], Awaitable[None]]


class Kept:
    """Made before anybody connects: it reads back what was kept. `start` and `stop` belong to one event loop."""

    def __init__(self, broker: Broker, clock: Clock, settings: RocketmqConfig) -> None:
        topics, parts = broker.topics, (broker.store, broker.fetcher, broker.publisher, clock)
        self._clock = clock
        self._ticks: list[Tick] = []
        self._tickers: list[Ticker] = []
        lines = dict(zip(schedule_topic(topics).queues, LEVELS_MS, strict=True))
        self.delays = Delays(*parts, lines, Reviver(topics))
        self.add("delayed messages", self.delays.tick, delays.TICK_MS)
        self._half_topic = hidden_topic(topics, HALF_TOPIC)
        given_up_topic(topics)
        queues = self._half_topic.queues[0], hidden_topic(topics, NOTES_TOPIC).queues[0]
        limits = HalfLimits(
            ask_interval_ms=settings.transaction_check_interval_ms,
            asks_max=settings.transaction_checks_max,
            open_max=settings.half_messages_max,
        )
        self.halves = Halves(*parts, *queues, limits)
        self._half_timeout_ms = settings.transaction_timeout_ms
        self.timers = Timers(*parts, timer_topic(topics).queues[0], Reviver(topics))
        self.add("timers", self.timers.tick, timers.TICK_MS)
        self.placer = Placer(topics, self.timers, clock, settings.timer_delay_ms_max)

    def placed(self, record: Record, properties: str, held: list[Record]) -> Record:
        """A message that may have to be kept back: the record to append in its stead. What has to be told to `appended`
        once it has been appended is added to `held`.
        """
        if record.sys_flag & SysFlag.TRANSACTION_BITS != SysFlag.PREPARED:
            return self.placer.placed(record, properties, held)
        self.placer.check(properties, self._clock.now_ms())
        self.halves.check_room(1 + sum(other.queue == self.halves.queue for other in held))
        held.append(half_of(record, self._half_topic, self._half_timeout_ms))
        return held[-1]

    def appended(self, held: Iterable[Record]) -> None:
        """These have been appended."""
        for record in held:
            if record.queue == self.halves.queue:
                self.halves.held(record)
            else:
                self.timers.held(record)

    def add(self, what: str, tick: Tick, interval_ms: int) -> None:
        """One more thing to do in time."""
        self._ticks.append(tick)
        self._tickers.append(Ticker(what, tick, interval_ms))

    def start(self) -> None:
        for ticker in self._tickers:
            ticker.start()

    def stop(self) -> None:
        for ticker in self._tickers:
            ticker.stop()

    async def tick(self) -> None:
        """Do what is due now."""
        for tick in self._ticks:
            await tick()
