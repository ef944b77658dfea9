"""What an operator has set for consumer groups, and what holds for the others.

A group needs no settings to exist. Settings are facts of the catalog: durable before they are answered, and there again
after any crash.
"""

from collections.abc import Iterator

import msgspec

from penstock.clock import Clock
from penstock.config import BrokerConfig
from penstock.core.events import Bus, GroupDeleted, GroupSet
from penstock.errors import BadGroupSettings, ConsumeForbidden
from penstock.store.keeper import Keeper
from penstock.store.store import Store

PREFIX = "group/"
ATTRIBUTES_CHARS_MAX = 16_384


class GroupSettings(msgspec.Struct, kw_only=True, frozen=True):
    """The defaults are those of a group that nobody has set."""

    name: str
    consume: bool = True  # whether its pulls are served
    broadcast: bool = True  # whether they are when each instance is to get everything
    notify: bool = True  # whether members are told at once when another comes or goes
    retry_queues: int = 1  # 0: what is sent back is dropped
    retries_max: int = 16  # then it is a dead letter
    attributes: dict[str, str] = {}  # what a gateway wants to remember


_decoder = msgspec.json.Decoder(GroupSettings)


class GroupsSettings:
    def __init__(self, store: Store, keeper: Keeper, clock: Clock, bus: Bus, config: BrokerConfig) -> None:
        self._store, self._keeper, self._clock, self._bus, self._config = store, keeper, clock, bus, config
        found = [_decoder.decode(value) for _, value in store.catalog.items(PREFIX)]
        self._settings = {settings.name: settings for settings in found}

    def of(self, name: str) -> GroupSettings:
        """What holds for a group, set or not."""
        return self._settings.get(name) or GroupSettings(name=name)

    def find(self, name: str) -> GroupSettings | None:
        """What was set for a group; replaced when it is set anew."""
        return self._settings.get(name)

    def check_consume(self, name: str) -> None:
        """Raises when the group may not consume at present."""
        settings = self._settings.get(name)
        if settings is not None and not settings.consume:
            raise ConsumeForbidden(name, "it was set to consume nothing: set it to consume again")

    def check_broadcast(self, name: str) -> None:
        settings = self._settings.get(name)
        if settings is not None and not settings.broadcast:
            raise ConsumeForbidden(name, "it was set not to broadcast: consume in cluster mode, or allow broadcasting")

    def __iter__(self) -> Iterator[GroupSettings]:
        return iter(list(self._settings.values()))

    def __contains__(self, name: str) -> bool:
        return name in self._settings

    async def put(self, settings: GroupSettings) -> None:
        """Set a group; returns when that is durable."""
        self._check(settings)
        before = self.of(settings.name)
        self._store.put_facts({PREFIX + settings.name: msgspec.json.encode(settings)})
        self._settings[settings.name] = settings
        changes = {
            key: str(value)
            for key, value in msgspec.structs.asdict(settings).items()
            if key != "attributes" and value != getattr(before, key)
        }
        self._bus.emit(GroupSet(at_ms=self._clock.now_ms(), group=settings.name, changes=changes))
        await self._keeper.durable(self._store.end_position)

    def _check(self, settings: GroupSettings) -> None:
        name, queues_max = settings.name, self._config.topic_queues_max
        if name not in self._settings and len(self._settings) >= self._config.groups_max:
            raise BadGroupSettings(name, f"{len(self._settings)} groups are set, the limit (broker.groups_max)")
        if not 0 <= settings.retry_queues <= queues_max:
            raise BadGroupSettings(name, f"{settings.retry_queues} retry queues, it must be 0 to {queues_max}")
        if sum(len(key) + len(value) for key, value in settings.attributes.items()) > ATTRIBUTES_CHARS_MAX:
            raise BadGroupSettings(name, f"its attributes have more than {ATTRIBUTES_CHARS_MAX} characters")

    async def delete(self, name: str) -> None:
        """Forget what was set, if anything was; returns when that is durable."""
        if name in self._settings:
            self._store.put_facts({PREFIX + name: None})
            del self._settings[name]
            self._bus.emit(GroupDeleted(at_ms=self._clock.now_ms(), group=name))
            await self._keeper.durable(self._store.end_position)
