"""The journal of acknowledgements that is kept outside a broker, and the comparison with what a data folder holds.

No acknowledged message is lost, duplicated or out of order, and a group is there whole or not at all. What was not
acknowledged may be there, once, or not.
"""

import random
import subprocess
import sys
import threading
from collections import Counter, defaultdict

import msgspec

from penstock.clock import SystemClock
from penstock.config import StoreConfig
from penstock.core.topics import PREFIX, Topic
from penstock.store.files import LocalDisk
from penstock.store.recovery import RecoveryReport
from penstock.store.store import Store
from penstock.testing.load import TOPICS, number_of
from penstock.wire import plain

Place = tuple[str, int]  # topic, queue


class Journal:
    """What was acknowledged: by place, offset and number."""

    def __init__(self) -> None:
        self.acknowledged: dict[Place, dict[int, int]] = defaultdict(dict)
        self.groups: set[str] = set()
        self.highest = -1

    def __len__(self) -> int:
        return sum(len(offsets) for offsets in self.acknowledged.values())

    def note(self, line: str) -> None:
        word, *rest = line.split()
        if word == "ack":
            topic, queue, offset, number = rest[0], int(rest[1]), int(rest[2]), int(rest[3])
            self.acknowledged[topic, queue][offset] = number
            self.highest = max(self.highest, number)
        elif word == "group":
            self.groups.add(rest[0])

    def complaints(self, found: "Contents") -> list[str]:
        """Everything that is wrong with what was found; empty when all is well."""
        wrong = [*found.complaints]
        for place, offsets in self.acknowledged.items():
            there = found.numbers.get(place, {})
            for offset, number in offsets.items():
                if there.get(offset) != number:
                    wrong.append(f"{place}: offset {offset} was acknowledged with {number}, has {there.get(offset)}")
        often = Counter(number for there in found.numbers.values() for number in there.values())
        wrong += [f"message {number} is there {times} times" for number, times in often.items() if times > 1]
        for name, members in found.groups.items():
            first, last = (int(number) for number in name.split("-"))
            if members != set(range(first, last + 1)):
                wrong.append(f"group {name} is not whole: {sorted(members)}")
        return wrong


class Contents:
    """What a data folder holds."""

    def __init__(self) -> None:
        self.numbers: dict[Place, dict[int, int]] = {}
        self.groups: dict[str, set[int]] = defaultdict(set)
        self.complaints: list[str] = []
        self.report = RecoveryReport()

    @property
    def highest(self) -> int:
        return max((number for there in self.numbers.values() for number in there.values()), default=-1)


def contents(folder: str, segment_bytes: int) -> Contents:
    """Open a folder as a broker would, read everything, and leave as a crash would."""
    config = StoreConfig(segment_bytes=segment_bytes)
    store = Store.open(LocalDisk(folder), config, SystemClock(), {plain.PLAIN_RUN: plain.split})
    found = Contents()
    found.report = store.report
    for _, value in store.catalog.items(PREFIX):
        topic = msgspec.json.decode(value, type=Topic)
        if topic.name in TOPICS:
            for index, queue in enumerate(topic.queues):
                _read_queue(store, queue, (topic.name, index), found)
    store.abandon()
    return found


def _read_queue(store: Store, queue: int, place: Place, found: Contents) -> None:
    there = found.numbers.setdefault(place, {})
    bounds = store.bounds(queue)
    offset = bounds.min_offset
    while offset < bounds.max_offset:
        batch = store.read(queue, offset, 1_000, 1 << 20)
        for payload, base in zip(batch.payloads, batch.rows["base"].tolist(), strict=True):
            if base != offset:
                found.complaints.append(f"{place}: offset {offset} is missing, {base} follows")
            number, group = number_of(payload)
            there[base] = number
            offset = base + 1
            if group:
                found.groups[group].add(number)
        offset = batch.next_offset


class Victim:
    """A broker process under load, whose acknowledgements are written down until it is killed."""

    def __init__(self, folder: str, journal: Journal, first: int, seed: int, segment_bytes: int = 4 << 20) -> None:
        command = [sys.executable, "-m", "penstock.testing.load", "--data", folder]
        options = ["--first", str(first), "--seed", str(seed), "--segment-bytes", str(segment_bytes)]
        self._journal = journal
        self._process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._busy = threading.Event()
        self.address = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        if self._process.stdout is None:
            return
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # torn by the kill
            if line.startswith("ready"):
                self.address = line.split()[1]
            else:
                self._journal.note(line)
                self._busy.set()

    def wait_until_busy(self, timeout_s: float = 30) -> None:
        """Until the first acknowledgement has come."""
        if not self._busy.wait(timeout_s):
            self.kill()
            raise RuntimeError(f"the broker acknowledged nothing in {timeout_s} s: {self.errors}")

    def kill(self) -> None:
        """SIGKILL, and wait until everything it had said is written down."""
        self._process.kill()
        self.errors = self._process.stderr.read() if self._process.stderr else ""
        self._reader.join()
        self._process.communicate()  # closes the pipes

    errors = ""


def crash_round(folder: str, journal: Journal, seed: int, segment_bytes: int = 4 << 20) -> Contents:
    """One round: start, load, kill at a random moment, compare. Raises when anything is wrong."""
    choose = random.Random(seed)
    victim = Victim(folder, journal, journal.highest + 1, seed, segment_bytes)
    try:
        victim.wait_until_busy()
        threading.Event().wait(choose.uniform(0, 0.6))  # the random moment
    finally:
        victim.kill()
    found = contents(folder, segment_bytes)
    wrong = journal.complaints(found)
    journal.highest = max(journal.highest, found.highest)  # what was not acknowledged may be there all the same
    if wrong:
        raise AssertionError(
            f"after the kill of seed {seed}: {len(wrong)} complaints, such as {wrong[:3]}\n{victim.errors}"
        )
    return found
