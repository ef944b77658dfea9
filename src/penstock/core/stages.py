"""What is staged and not committed yet: in memory while it is little, in a file of its own when it grows.

Memory and disk are bounded, each for all stages together. Only entries that can be frozen (turned into bytes and back)
can go to the disk; others stay in memory and are refused when that is full.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from penstock.config import BrokerConfig
from penstock.errors import DiskFull, StageNotFound, StagesFull
from penstock.model import Entry
from penstock.store.stagefiles import Buffer, StageFiles

Frozen = Sequence[Buffer]


class Frost(NamedTuple):
    """How entries become bytes, in parts, and entries again. None in place of parts: this one cannot be frozen."""

    freeze: Callable[[Entry], Frozen | None]
    thaw: Callable[[bytes], Entry]


def _never(entry: Entry) -> Frozen | None:
    return None


def _nothing(data: bytes) -> Entry:
    raise TypeError("nothing was frozen here")


NO_FROST = Frost(_never, _nothing)


class Stage:
    """Entries in the order in which they came: first those in its file, if it has one, then those in memory."""

    def __init__(self, touched_ms: int) -> None:
        self.entries: list[Entry] = []
        self.queues: set[int] = set()
        self.parts = 0  # requests that it came in
        self.messages = 0
        self.payload_bytes = 0  # of the entries, when they are published; frozen they may be smaller
        self.memory_bytes = 0
        self.file = 0
        self.file_bytes = 0
        self.touched_ms = touched_ms


class Stages:
    def __init__(self, files: StageFiles, frost: Frost, config: BrokerConfig) -> None:
        self._files, self._frost, self._config = files, frost, config
        self._stages: dict[str, Stage] = {}
        self.memory_bytes = self.disk_bytes = 0

    def __len__(self) -> int:
        return len(self._stages)

    def items(self) -> list[tuple[str, Stage]]:
        return list(self._stages.items())

    def get(self, name: str) -> Stage:
        found = self._stages.get(name)
        if found is None:
            raise StageNotFound(name)
        return found

    def queues(self, name: str) -> set[int]:
        found = self._stages.get(name)
        return found.queues if found else set()

    def add(self, name: str, entries: Sequence[Entry], part: int | None, now_ms: int) -> None:
        """`part` says which request of the stage it is: one that is there already is left out, and one that has others
        missing before it belongs to a stage that is gone.
        """
        known = self._stages.get(name)
        parts = known.parts if known else 0
        if part is not None and part < parts:
            return
        if part is not None and part > parts:
            raise StageNotFound(name)
        stage = known or self._opened(now_ms)
        self._put(stage, entries)
        self._stages[name] = stage
        stage.queues.update(entry.queue for entry in entries)
        stage.messages += sum(entry.count for entry in entries)
        stage.payload_bytes += sum(entry.length for entry in entries)
        stage.parts += 1
        stage.touched_ms = now_ms

    def _opened(self, now_ms: int) -> Stage:
        if len(self._stages) >= self._config.stages_max:
            raise StagesFull("stages (broker.stages_max)", self._config.stages_max)
        return Stage(now_ms)

    def _put(self, stage: Stage, entries: Sequence[Entry]) -> None:
        added, config = sum(entry.length for entry in entries), self._config
        full = self.memory_bytes + added > config.stages_bytes_max
        if full or stage.file or stage.memory_bytes + added > config.stage_memory_bytes:
            frozen = self._frozen([*stage.entries, *entries])
            if frozen is not None:
                self._to_disk(stage, frozen)
                return
        if full:
            raise StagesFull("bytes (broker.stages_bytes_max)", config.stages_bytes_max)
        stage.entries.extend(entries)
        stage.memory_bytes += added
        self.memory_bytes += added

    def _frozen(self, entries: Sequence[Entry]) -> list[Frozen] | None:
        """None when one of them cannot be."""
        found = [self._frost.freeze(entry) for entry in entries]
        there = [frozen for frozen in found if frozen is not None]
        return there if len(there) == len(found) else None

    def _to_disk(self, stage: Stage, frozen: list[Frozen]) -> None:
        """All that the stage has in memory, and more. All or nothing of it counts."""
        limit = self._config.stages_disk_bytes_max
        if self.disk_bytes + sum(len(part) for item in frozen for part in item) > limit:
            raise StagesFull("bytes on the disk (broker.stages_disk_bytes_max)", limit)
        try:
            number = stage.file or self._files.create()
            end = self._files.add(number, stage.file_bytes, frozen)
        except OSError as error:
            raise DiskFull(error.strerror or "the stage could not be written") from error
        self.disk_bytes += end - stage.file_bytes
        self.memory_bytes -= stage.memory_bytes
        stage.file, stage.file_bytes, stage.entries, stage.memory_bytes = number, end, [], 0

    def to_disk(self, name: str) -> bool:
        """Whether all of a stage is in its file now: what cannot be frozen cannot go there."""
        stage = self.get(name)
        frozen = self._frozen(stage.entries)
        if frozen is None:
            return False
        if frozen or not stage.file:
            self._to_disk(stage, frozen)
        return True

    def entries(self, name: str) -> Iterator[Entry]:
        stage = self.get(name)
        if stage.file:
            yield from (self._frost.thaw(data) for data, _ in self._files.read(stage.file))
        yield from stage.entries

    def drop(self, name: str) -> None:
        if name in self._stages:
            stage = self.take(name)
            if stage.file:
                self._files.remove(stage.file)

    def take(self, name: str) -> Stage:
        """It is a stage no longer; its file stays, for the one who takes it."""
        stage = self.get(name)
        del self._stages[name]
        self.memory_bytes -= stage.memory_bytes
        self.disk_bytes -= stage.file_bytes
        return stage

    def put_back(self, name: str, stage: Stage) -> None:
        self._stages[name] = stage
        self.memory_bytes += stage.memory_bytes
        self.disk_bytes += stage.file_bytes
