"""What is in memory is asked for blocks of the log, and for a moment only once."""

from penstock.store.residency import BLOCK_BYTES, KNOWN_MAX, KNOWN_MS, Residency
from penstock.store.segments import Segment

NOTHING = memoryview(bytes(4 * BLOCK_BYTES))

LONG = 8  # blocks


class Pages:
    """A file of which the system has some blocks in memory; counts how often it is asked."""

    def __init__(self, *blocks: int) -> None:
        self.blocks, self.asked = set(blocks), 0

    def length(self) -> int:
        return len(NOTHING)

    def map(self, writable: bool) -> memoryview:
        return NOTHING

    def is_resident(self, mapping: memoryview, at: int, length: int) -> bool:
        self.asked += 1
        return set(range(at // BLOCK_BYTES, (at + length - 1) // BLOCK_BYTES + 1)) <= self.blocks


class Time:
    now_ms = 5_000


def test_a_block_is_asked_for_once_in_a_while():
    pages, time = Pages(0, 1), Time()
    residency, segment = Residency(lambda: time.now_ms), Segment(0, pages)
    assert all(residency.holds(segment, at, 1_000) for at in range(0, 50_000, 1_000))
    assert pages.asked == 1
    time.now_ms += KNOWN_MS
    assert residency.holds(segment, 0, 1_000)
    assert pages.asked == 2


def test_a_range_over_two_blocks_needs_both():
    residency = Residency(lambda: 0)
    assert residency.holds(Segment(0, Pages(0, 1)), BLOCK_BYTES - 10, 20)
    assert not residency.holds(Segment(1, Pages(0)), BLOCK_BYTES - 10, 20)


def test_segments_are_told_apart():
    residency = Residency(lambda: 0)
    assert residency.holds(Segment(0, Pages(0)), 0, 10)
    assert not residency.holds(Segment(1, Pages()), 0, 10)


def test_where_only_some_of_a_block_is_in_memory_that_is_asked_for():
    class Half(Pages):
        def is_resident(self, mapping: memoryview, at: int, length: int) -> bool:
            return at + length <= 100

    residency = Residency(lambda: 0)
    segment = Segment(0, Half())
    assert residency.holds(segment, 0, 100)
    assert not residency.holds(segment, 50, 100)


def test_what_is_remembered_has_a_bound():
    residency = Residency(lambda: 0)
    for number in range(KNOWN_MAX + 10):
        assert residency.holds(Segment(number, Pages(0)), 0, 10)
    assert len(residency._known) <= KNOWN_MAX


def test_a_stretch_goes_on_while_blocks_are_in_memory():
    pages, residency = Pages(0, 1, 3), Residency(lambda: 5_000)
    segment = Segment(0, pages)
    assert residency.stretch(segment, 100, LONG) is None  # nobody has asked for it
    assert [residency.holds(segment, block * BLOCK_BYTES, 10) for block in range(4)] == [True, True, False, True]
    assert residency.stretch(segment, 100, LONG) == (0, 2 * BLOCK_BYTES, 5_000 + KNOWN_MS)
    assert residency.stretch(segment, 2 * BLOCK_BYTES, LONG) is None
    assert residency.stretch(segment, 3 * BLOCK_BYTES + 7, LONG) == (3 * BLOCK_BYTES, 4 * BLOCK_BYTES, 5_000 + KNOWN_MS)


def test_a_stretch_is_asked_for_once_and_holds_as_long_as_its_oldest_block():
    pages, time = Pages(0, 1), Time()
    residency, segment = Residency(lambda: time.now_ms), Segment(0, pages)
    assert residency.holds(segment, BLOCK_BYTES, 10)
    time.now_ms += 300
    assert residency.holds(segment, 0, 10)
    assert residency.stretch(segment, 0, LONG) == (0, 2 * BLOCK_BYTES, time.now_ms - 300 + KNOWN_MS)
    asked = pages.asked
    assert residency.stretch(segment, BLOCK_BYTES - 1, LONG) is not None
    assert pages.asked == asked + 1  # the third block, which was not there


def test_a_stretch_has_an_end():
    class Long(Pages):
        def map(self, writable: bool) -> memoryview:
            return memoryview(bytes((LONG + 4) * BLOCK_BYTES))

    residency, segment = Residency(lambda: 0), Segment(0, Long(*range(LONG + 4)))
    assert residency.holds(segment, BLOCK_BYTES, 10)
    assert residency.stretch(segment, BLOCK_BYTES, LONG) == (BLOCK_BYTES, (1 + LONG) * BLOCK_BYTES, KNOWN_MS)


def test_a_stretch_of_which_something_was_forgotten_meanwhile_counts_for_no_time():
    residency = Residency(lambda: 0)
    segment = Segment(0, Pages(0, 1))
    for one in (segment, *(Segment(number, Pages(0)) for number in range(1, KNOWN_MAX))):
        assert residency.holds(one, 0, 10)
    assert residency.stretch(segment, 0, LONG) == (0, 2 * BLOCK_BYTES, 0)
