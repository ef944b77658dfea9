"""Power cuts: thousands of states that a disk may be left in, and the store must keep its word in each.

A workload runs on a disk in memory. Between its steps, and in the middle of them before single calls to the disk, the
power goes: from one moment come several states of the disk, in every mode of loss. In each the store is opened, judged,
worked with, and cut off again.

A failure names the seed, which is the test's parameter, and how to replay it. More seeds: PENSTOCK_EXAMPLES=10.
"""

import errno
import os
import random
from collections.abc import Callable

import pytest

from penstock.clock import ManualClock
from penstock.errors import StoreReadOnly
from penstock.model import Durability
from penstock.store.store import Store
from penstock.testing.disk import Call, FaultyDisk, Mode
from penstock.testing.verdict import problems
from penstock.testing.witness import Witness, look
from penstock.testing.workload import Workload, open_store
from penstock.wire.plain import plain

EXAMPLES = int(os.environ.get("PENSTOCK_EXAMPLES", "1"))
STEPS = 60


class Scene:
    """A store at work on a disk, and how to judge what a crash leaves of it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.choose = random.Random(seed)
        self.clock = ManualClock()
        self.disk = FaultyDisk()
        self.store = open_store(self.disk, self.clock)
        self.witness = Witness()
        self.work = Workload(self.choose, self.store, self.witness, self.clock)
        self.states = 0

    def cut(self, where: str, modes: list[Mode] | None = None) -> None:
        """Cut the power now, in several ways, and judge each."""
        for mode in modes or list(Mode):
            self.judge(self.disk.crash(self.choose, mode), self.witness, f"{where}, {mode.value}")

    def kill(self, where: str) -> None:
        """Kill the process, and after the restart cut the power."""
        disk = self.disk.kill()
        store = self.judge(disk, self.witness, f"{where}, killed", killed=True)
        self.judge(disk.crash(self.choose, Mode.NOTHING), self.witness.after(store), f"{where}, killed, then power cut")

    def judge(self, disk: FaultyDisk, witness: Witness, where: str, killed: bool = False) -> Store:
        self.states += 1
        try:
            store = open_store(disk, self.clock)
            broken = problems(witness, store, killed)
        except Exception as error:
            error.add_note(self.story(where))
            raise
        assert not broken, "\n".join([*broken, self.story(where)])
        return store

    def story(self, where: str) -> str:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
        return f"{where}; replay with: PENSTOCK_EXAMPLES={EXAMPLES} pytest '{test}'"

    def goes_on(self, disk: FaultyDisk, where: str) -> None:
        """After a recovery: the next offsets are right, work goes on, and the next crash is survived as well."""
        store = self.judge(disk, self.witness, where)
        witness = self.witness.after(store)
        next_offsets_are_right(store, witness)
        work = Workload(random.Random(self.choose.random()), store, witness, self.clock)
        for _ in range(4):
            work.step()
        for mode in Mode:
            self.judge(disk.crash(self.choose, mode), witness, f"{where}, again {mode.value}")


def next_offsets_are_right(store: Store, witness: Witness) -> None:
    for queue_id in witness.live_queues:
        bounds = store.bounds(queue_id)
        (sent,) = witness.append(store, [plain(queue_id, b"after the crash, queue %d" % queue_id)])
        assert sent.offset == bounds.max_offset
    witness.flush(store)
    assert not problems(witness, store)


def run(scene: Scene, steps: int, moment: Callable[[Scene, str], None]) -> None:
    scene.work.begin()
    for number in range(steps):
        name = scene.work.step()
        moment(scene, f"after step {number} ({name})")
    assert not scene.work.refused


# --- random work, crashes between steps and within them --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(16 * EXAMPLES))
def test_power_cuts_between_steps(seed):
    def moment(scene: Scene, where: str) -> None:
        if scene.choose.random() < 0.15:
            scene.cut(where)

    run(Scene(seed), STEPS, moment)


@pytest.mark.parametrize("seed", range(1_000, 1_000 + 16 * EXAMPLES))
def test_power_cuts_in_the_middle_of_a_step(seed):
    scene = Scene(seed)

    def watch(call: Call) -> None:
        if scene.choose.random() < 0.08:
            scene.cut(f"before call {call.number} ({call.kind} {call.name})")

    scene.disk.watch = watch
    run(scene, STEPS, lambda scene, where: None)
    assert scene.states


@pytest.mark.parametrize("seed", range(2_000, 2_000 + 8 * EXAMPLES))
def test_kills_and_then_power_cuts(seed):
    def moment(scene: Scene, where: str) -> None:
        if scene.choose.random() < 0.2:
            scene.kill(where)

    run(Scene(seed), STEPS, moment)


@pytest.mark.parametrize("seed", range(3_000, 3_000 + 8 * EXAMPLES))
def test_work_goes_on_after_a_power_cut_and_the_next_one_is_survived_too(seed):
    def moment(scene: Scene, where: str) -> None:
        if scene.choose.random() < 0.1:
            scene.goes_on(scene.disk.crash(scene.choose, scene.choose.choice(list(Mode))), where)

    run(Scene(seed), STEPS, moment)


@pytest.mark.parametrize("seed", range(4_000, 4_000 + 6 * EXAMPLES))
def test_power_cuts_during_recovery(seed):
    """A recovery that is cut off, at any of its calls, can be begun again."""
    scene = Scene(seed)
    run(scene, STEPS, lambda scene, where: None)
    for mode in Mode:
        disk = scene.disk.crash(scene.choose, mode)

        def watch(call: Call, disk: FaultyDisk = disk, mode: Mode = mode) -> None:
            where = f"{mode.value}, during recovery before call {call.number} ({call.kind} {call.name})"
            scene.judge(disk.crash(scene.choose, scene.choose.choice(list(Mode))), scene.witness, where)

        disk.watch = watch
        open_store(disk, scene.clock)


# --- every call of some small stories --------------------------------------------------------------------------------


def first_start(scene: Scene) -> None:
    scene.witness.create(scene.store, 1, Durability.SYNC)
    scene.witness.flush(scene.store)
    scene.witness.append(scene.store, [plain(1, b"the first message")])
    scene.witness.flush(scene.store)


def a_roll(scene: Scene) -> None:
    scene.witness.create(scene.store, 1, Durability.SYNC)
    for number in range(9):
        scene.witness.append(scene.store, [plain(1, b"%d." % number + bytes(4_000))])
        if number % 3 != 1:
            scene.witness.flush(scene.store)


def a_group_over_two_segments(scene: Scene) -> None:
    for queue_id, durability in ((1, Durability.SYNC), (2, Durability.ASYNC)):
        scene.witness.create(scene.store, queue_id, durability)
    scene.witness.flush(scene.store)
    group = [plain(1 + number % 2, b"%d." % number + bytes(3_000)) for number in range(9)]
    scene.witness.append(scene.store, group, group=True)
    scene.witness.flush(scene.store)


def trim_and_clean(scene: Scene) -> None:
    for queue_id in (1, 2):
        scene.witness.create(scene.store, queue_id, Durability.SYNC)
    for number in range(12):
        scene.witness.append(scene.store, [plain(1 + number // 11, b"%d." % number + bytes(4_000))])
    scene.witness.append(scene.store, [plain(2, b"small, and stays")])
    scene.witness.flush(scene.store)
    scene.witness.trim(scene.store, 1, 11)
    scene.store.clean()
    scene.store.checkpoint()
    scene.store.clean()
    scene.witness.append(scene.store, [plain(1, b"behind the trim")])
    scene.witness.flush(scene.store)


def checkpoints(scene: Scene) -> None:
    for queue_id in (1, 2):
        scene.witness.create(scene.store, queue_id, Durability.SYNC)
    for number in range(30):
        scene.witness.append(scene.store, [plain(1 + number % 2, b"%d" % number)])
        if number % 7 == 0:
            scene.witness.flush(scene.store)
        if number % 10 == 9:
            scene.store.checkpoint()
    scene.witness.drop(scene.store, 2)
    scene.store.checkpoint()
    scene.witness.put(scene.store, "key", b"value")
    scene.witness.flush(scene.store)


def a_clean_stop(scene: Scene) -> None:
    checkpoints(scene)
    scene.store.close()
    scene.store = open_store(scene.disk, scene.clock)
    scene.witness.append(scene.store, [plain(1, b"after the stop")])
    scene.witness.flush(scene.store)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    "story", [first_start, a_roll, a_group_over_two_segments, trim_and_clean, checkpoints, a_clean_stop]
)
def test_power_cuts_before_every_call(story, mode):
    scene = Scene(5_000)
    scene.disk.watch = lambda call: scene.cut(f"before call {call.number} ({call.kind} {call.name})", [mode] * 2)
    story(scene)
    assert scene.states > 10


def test_power_cuts_before_every_call_of_the_very_first_opening():
    clock, choose, states = ManualClock(), random.Random(1), []
    disk = FaultyDisk()
    disk.watch = lambda call: states.extend(disk.crash(choose, mode) for mode in Mode)
    open_store(disk, clock)
    for state in states:
        store = open_store(state, clock)
        store.create_queue(1, Durability.SYNC)
        store.append([plain(1, b"hello")])
        store.flush()
        found = look(open_store(state.crash(choose, Mode.NOTHING), clock), 1)
        assert found is not None
        assert found.bodies == {0: b"hello"}


# --- the check can fail ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6_000, 6_004))
def test_a_disk_that_lies_about_sync_is_found_out(seed):
    """The negative control: when syncs do nothing, the same work, crash and check must report acknowledged loss."""
    scene = Scene(seed)
    scene.work.begin()
    scene.disk.lying = True
    for _ in range(STEPS):
        scene.work.step()
    scene.witness.flush(scene.store)
    crashed = open_store(scene.disk.crash(scene.choose, Mode.NOTHING), scene.clock)
    broken = problems(scene.witness, crashed)
    assert any("is lost (acknowledged: True" in line for line in broken)
    assert not problems(scene.witness, open_store(scene.disk.kill(), scene.clock), killed=True)


def test_a_failed_sync_is_never_made_good_by_the_next():
    """The system forgets what a failed sync was to write: a store that syncs again and acknowledges has lied."""
    scene = Scene(7_000)
    scene.work.begin()
    scene.disk.break_calls("sync", OSError(errno.EIO, ""))
    told: list[Exception | None] = []
    sent = scene.witness.append(scene.store, [plain(1, b"never acknowledged")])
    scene.store.when_durable(scene.store.end_position, told.append)
    scene.store.flush()
    scene.disk.mend()
    scene.store.flush()
    assert [type(error) for error in told] == [StoreReadOnly]
    assert not sent[0].acked
    scene.cut("after a failed sync")
