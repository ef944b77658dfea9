"""The store against plain lists: whatever is done in whatever order, a queue is what a list would be.

Hypothesis drives it: appends of every kind, groups, retention, cleaner, checkpoints, clean restarts, kills and power
cuts. The live store must equal the lists exactly; after a power cut the witness says what may be missing, and the lists
go on with what is there. A failure prints the rules that lead to it; with PENSTOCK_EXAMPLES=10 there are more examples,
and what fails is shrunk to the shortest story.
"""

import os
import random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.clock import ManualClock
from penstock.model import Durability
from penstock.store import log
from penstock.testing.disk import FaultyDisk, Mode
from penstock.testing.verdict import problems
from penstock.testing.witness import Witness, look
from penstock.testing.workload import open_store, small_config
from penstock.wire.plain import Plain, PlainRun, message_in, plain, plain_run

EXAMPLES = int(os.environ.get("PENSTOCK_EXAMPLES", "1"))
PHASES = (Phase.generate, Phase.shrink) if EXAMPLES > 1 else (Phase.generate,)  # shrinking may take minutes
pytestmark = pytest.mark.timeout(300 * EXAMPLES)

LENGTHS = st.sampled_from([0, 1, 80, 400, 3_000])
PICK = st.integers(0, 1_000)  # which queue, or which offset: modulo what there is


class Row(NamedTuple):
    """What the list of a queue holds: a message or a closed batch."""

    offset: int
    count: int
    body: bytes
    store_ms: int

    @property
    def end(self) -> int:
        return self.offset + self.count


class Model:
    """One queue as a plain list. `shown` is how many of the rows consumers see."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.shown = 0
        self.min_offset = self.next_offset = 0

    @property
    def visible(self) -> list[Row]:
        return self.rows[: self.shown]

    @property
    def max_offset(self) -> int:
        return self.visible[-1].end if self.visible else max(self.min_offset, self._hidden_from())

    def _hidden_from(self) -> int:
        return self.rows[self.shown].offset if self.shown < len(self.rows) else self.next_offset

    def append(self, body: bytes, count: int, store_ms: int) -> None:
        self.rows.append(Row(self.next_offset, count, body, store_ms))
        self.next_offset += count

    def trim(self, offset: int) -> None:
        if offset <= self.min_offset:
            return
        kept = [row for row in self.visible if row.end > offset]
        gone = self.shown - len(kept)
        self.rows, self.shown = self.rows[gone:], self.shown - gone
        self.min_offset = kept[0].offset if kept else self._hidden_from()


class StoreAgainstLists(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.disk = FaultyDisk()
        self.witness = Witness()
        self.models: dict[int, Model] = {}
        self.serial = 0
        self.store = open_store(self.disk, self.clock)

    @initialize()
    def first_queues(self) -> None:
        self.create(Durability.SYNC)
        self.create(Durability.ASYNC)

    def pick(self, number: int) -> int:
        queues = sorted(self.models)
        return queues[number % len(queues)]

    def message(self, queue_id: int, length: int, count: int = 1) -> Plain:
        self.serial += 1
        entry = plain(queue_id, b"%d." % self.serial + bytes(length))
        entry.count = count
        return entry

    def append(self, entries: list[Plain | PlainRun], group: bool = False) -> None:
        self.witness.append(self.store, entries, group)
        for entry in entries:
            model = self.models[entry.queue]
            for message in entry.messages if isinstance(entry, PlainRun) else [entry]:
                model.append(bytes(message.body), message.count, self.clock.now_ms())
        for queue_id, model in self.models.items():
            if self.witness.queues[queue_id].durability is Durability.ASYNC:
                model.shown = len(model.rows)

    # --- what may be done ---------------------------------------------------------------------------------------------

    @rule(durability=st.sampled_from(Durability))
    @precondition(lambda self: len(self.models) < 4)
    def create(self, durability: Durability) -> None:
        queue_id = max(self.witness.queues, default=0) + 1
        self.witness.create(self.store, queue_id, durability)
        self.models[queue_id] = Model()

    @rule(pick=PICK)
    @precondition(lambda self: len(self.models) > 2)
    def drop(self, pick: int) -> None:
        queue_id = self.pick(pick)
        self.witness.drop(self.store, queue_id)
        del self.models[queue_id]

    @rule(picks=st.lists(st.tuples(PICK, LENGTHS, st.integers(1, 3)), min_size=1, max_size=6), group=st.booleans())
    def append_entries(self, picks: list[tuple[int, int, int]], group: bool) -> None:
        self.append([self.message(self.pick(pick), length, count) for pick, length, count in picks], group)

    @rule(pick=PICK, lengths=st.lists(LENGTHS, min_size=1, max_size=20), group=st.booleans())
    def append_run(self, pick: int, lengths: list[int], group: bool) -> None:
        lengths = lengths if sum(lengths) < 10_000 else lengths[:3]
        self.append([plain_run([self.message(self.pick(pick), length) for length in lengths])], group)

    @rule()
    def flush(self) -> None:
        self.witness.flush(self.store)
        for model in self.models.values():
            model.shown = len(model.rows)

    @rule(pick=PICK, at=PICK)
    def trim(self, pick: int, at: int) -> None:
        queue_id = self.pick(pick)
        model = self.models[queue_id]
        offset = model.min_offset + at % (model.max_offset - model.min_offset + 1)
        self.witness.trim(self.store, queue_id, offset)
        model.trim(offset)

    @rule(key=st.sampled_from("ab"), value=st.none() | st.binary(max_size=40))
    def put(self, key: str, value: bytes | None) -> None:
        self.witness.put(self.store, key, value)
        assert self.store.catalog.get(key) == value

    @rule()
    def clean(self) -> None:
        self.store.clean()
        self.as_shown()

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()
        self.as_shown()

    def as_shown(self) -> None:
        """Cleaner and checkpoint may sync on the way; then more is visible."""
        for queue_id, model in self.models.items():
            shown = self.store.bounds(queue_id).max_offset
            model.shown = max(model.shown, sum(row.end <= shown for row in model.rows))

    @rule(pick=PICK, at=PICK, messages_max=st.integers(1, 6), bytes_max=st.sampled_from([1, 200, 5_000]))
    def read(self, pick: int, at: int, messages_max: int, bytes_max: int) -> None:
        """From any offset, also inside a closed batch: in order, without a gap, within the limits but at least one."""
        queue_id = self.pick(pick)
        model = self.models[queue_id]
        offset = model.min_offset + at % (model.max_offset - model.min_offset + 1)
        batch = self.store.read(queue_id, offset, messages_max, bytes_max)
        bodies = [message_in(payload).body for payload in batch.payloads]
        expected = [row for row in model.visible if offset < row.end]
        assert bodies == [row.body for row in expected[: len(bodies)]]
        assert not [row for row in expected[len(bodies) :] if row.offset < batch.next_offset], "left out"
        assert batch.next_offset > offset or offset == model.max_offset
        if len(bodies) > 1:
            assert sum(row.count for row in expected[: len(bodies)]) <= messages_max
            assert sum(map(len, batch.payloads)) <= bytes_max

    @rule(by_ms=st.integers(0, 100))
    def wait(self, by_ms: int) -> None:
        self.clock.advance(by_ms)

    # --- ends and new beginnings --------------------------------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = open_store(self.disk, self.clock)
        assert self.store.report.clean
        self.all_is_there()

    @rule()
    def kill(self) -> None:
        self.disk = self.disk.kill()
        self.store = open_store(self.disk, self.clock)
        self.all_is_there()

    def all_is_there(self) -> None:
        broken = problems(self.witness, self.store, killed=True)
        assert not broken, broken
        for model in self.models.values():
            model.shown = len(model.rows)
        self.witness = self.witness.after(self.store)

    @rule(mode=st.sampled_from(Mode), seed=st.integers(0, 1 << 16))
    def cut_the_power(self, mode: Mode, seed: int) -> None:
        self.disk = self.disk.crash(random.Random(seed), mode)
        self.store = open_store(self.disk, self.clock)
        broken = problems(self.witness, self.store)
        assert not broken, broken
        self.witness = self.witness.after(self.store)
        self.models = {queue_id: self.recovered(queue_id) for queue_id in self.witness.queues}
        while len(self.models) < 2:
            self.create(Durability.SYNC)

    def recovered(self, queue_id: int) -> Model:
        """The list that goes on with what the crash has left."""
        found = look(self.store, queue_id)
        assert found is not None
        model = Model()
        batch = self.store.read(queue_id, found.min_offset, 1_000_000, 1 << 30)
        for payload, row in zip(batch.payloads, batch.rows, strict=True):
            model.rows.append(Row(int(row["base"]), int(row["count"]), message_in(payload).body, int(row["time"])))
        model.min_offset, model.next_offset, model.shown = found.min_offset, found.max_offset, len(model.rows)
        return model

    # --- what must hold all the time ----------------------------------------------------------------------------------

    @invariant()
    def queues_are_their_lists(self) -> None:
        for queue_id, model in self.models.items():
            found = look(self.store, queue_id)
            assert found is not None
            assert found.bodies == {row.offset: row.body for row in model.visible}
            assert found.min_offset == model.min_offset

    @invariant()
    def times_are_found(self) -> None:
        now_ms = self.clock.now_ms()
        for queue_id, model in self.models.items():
            for store_ms in (now_ms - 50, now_ms, now_ms + 1):
                later = [row.offset for row in model.visible if row.store_ms >= store_ms]
                bounds = self.store.bounds(queue_id)
                assert self.store.offset_at_time(queue_id, store_ms) == (later[0] if later else bounds.max_offset)


StoreAgainstLists.TestCase.settings = settings(
    max_examples=250 * EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    phases=PHASES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
    database=None,
)
TestStoreAgainstLists = StoreAgainstLists.TestCase


class StoreFarOut(StoreAgainstLists):
    """The same where positions in the log no longer fit into 32 bits: they pass that border on the way."""

    def __init__(self) -> None:
        log.FIRST_SEGMENT = (1 << 31) // small_config().segment_bytes - 2
        super().__init__()

    def teardown(self) -> None:
        super().teardown()
        log.FIRST_SEGMENT = 0


StoreFarOut.TestCase.settings = settings(StoreAgainstLists.TestCase.settings, max_examples=100 * EXAMPLES)
TestStoreFarOut = StoreFarOut.TestCase
