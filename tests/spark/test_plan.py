"""From places in queues to tasks. All of it is pure, and no Spark is needed."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.routes import MessageQueue
from penstock.errors import ConfigError, PenstockError
from penstock.spark import plan
from penstock.spark.errors import OutsideQueue
from penstock.spark.options import Edge
from penstock.spark.places import Queue
from penstock.spark.ranges import Range

A0, A1, B0 = (MessageQueue("orders", broker, number) for broker, number in (("a", 0), ("a", 1), ("b", 0)))


def queue(name, first, last):
    return Queue(name, "127.0.0.1:10911", first, last)


ONE_BROKER = [queue(A0, 10, 100), queue(A1, 0, 50)]
TWO_BROKERS = [queue(A0, 10, 100), queue(B0, 0, 50)]


def test_the_examples_in_the_docstrings():
    assert doctest.testmod(plan).failed == 0


# --- edges ------------------------------------------------------------------------------------------------------------


def test_words_are_the_ends_of_queues():
    assert plan.resolved(Edge("earliest"), ONE_BROKER, {}) == {A0: 10, A1: 0}
    assert plan.resolved(Edge("latest"), ONE_BROKER, {}) == {A0: 100, A1: 50}


def test_a_queue_is_its_number_where_one_broker_has_the_topic():
    edge = Edge(offsets={"orders": {"0": 23, "a:1": -1}})
    assert plan.resolved(edge, ONE_BROKER, {}) == {A0: 23, A1: 50}


def test_with_several_brokers_it_takes_their_names():
    assert plan.resolved(Edge(offsets={"orders": {"a:0": 23, "b:0": -2}}), TWO_BROKERS, {}) == {A0: 23, B0: 0}
    with pytest.raises(ConfigError, match="its queues are a:0, b:0"):
        plan.resolved(Edge(offsets={"orders": {"0": 23, "b:0": -2}}, option="startingOffsets"), TWO_BROKERS, {})


@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ({"other": {"0": 1}}, "'other', which is not read: there are orders"),
        ({"orders": {"7": 1}}, "has queue '7'"),
        ({"orders": {"0": 11}}, "nothing for orders/a/1"),
    ],
)
def test_offsets_name_every_queue_and_no_other(offsets, told):
    with pytest.raises(ConfigError, match=told):
        plan.resolved(Edge(offsets=offsets, option="startingOffsets"), ONE_BROKER, {})


def test_times_are_looked_up_and_stay_within_the_queue():
    assert plan.times_wanted(Edge(time_ms=5), ONE_BROKER) == {A0: 5, A1: 5}
    by_queue = Edge(times={"orders": {"0": 5, "1": 6}})
    assert plan.times_wanted(by_queue, ONE_BROKER) == {A0: 5, A1: 6}
    assert plan.resolved(by_queue, ONE_BROKER, {A0: 3, A1: 70}) == {A0: 10, A1: 50}
    assert plan.times_wanted(Edge("latest"), ONE_BROKER) == {}


def test_a_time_behind_the_last_message_is_an_error_and_a_word_is_not():
    behind = {A0: 100, A1: 7}
    with pytest.raises(PenstockError, match="orders/a/0: give an earlier time"):
        plan.check_matched(Edge(time_ms=5, option="startingTimestamp"), ONE_BROKER, behind)
    plan.check_matched(Edge("latest"), ONE_BROKER, behind)


def test_numbers_have_to_be_in_their_queues():
    plan.check_inside(Edge(), ONE_BROKER, {A0: 10, A1: 50})
    with pytest.raises(OutsideQueue, match="offset 9 for queue orders/a/0, which holds offsets 10 up to 100"):
        plan.check_inside(Edge(option="startingOffsets"), ONE_BROKER, {A0: 9, A1: 0})
    with pytest.raises(OutsideQueue):
        plan.check_inside(Edge(option="endingOffsets"), ONE_BROKER, {A0: 10, A1: 51})


# --- ranges and losses ------------------------------------------------------------------------------------------------


def between(starts, ends, queues=ONE_BROKER):
    ranges, losses = plan.ranges_between(queues, starts, ends)
    return [(one.queue, one.start, one.end) for one in ranges], losses


def test_a_range_per_queue_that_has_something():
    assert between({A0: 20, A1: 50}, {A0: 30, A1: 50}) == ([(0, 20, 30)], [])


def test_a_new_queue_is_read_from_its_beginning():
    assert between({A0: 20}, {A0: 20, A1: 5}) == ([(1, 0, 5)], [])


def test_what_retention_took_is_counted():
    ranges, losses = between({A0: 3, A1: 0}, {A0: 30, A1: 0})
    assert ranges == [(0, 10, 30)]
    assert [(loss.queue, loss.messages) for loss in losses] == [(A0, 7)]
    assert "7 messages of queue orders/a/0, offsets 3 up to 10" in str(losses[0])


def test_retention_can_take_all_of_a_range():
    ranges, losses = between({A0: 3, A1: 0}, {A0: 8, A1: 0})
    assert ranges == []
    assert losses[0].messages == 5


def test_a_topic_that_was_made_anew_is_read_from_its_beginning():
    """The checkpoint is ahead of the queue."""
    ranges, losses = between({A0: 500, A1: 50}, {A0: 100, A1: 50})
    assert ranges == [(0, 10, 100)]
    assert "made anew" in str(losses[0])


def test_messages_that_a_broker_has_lost_are_missed():
    """A batch was planned up to 120, and then the broker came back with less."""
    ranges, losses = between({A0: 90, A1: 50}, {A0: 120, A1: 50})
    assert ranges == [(0, 90, 100)]
    assert losses[0].messages == 20


def test_losses_are_known_before_a_batch_is_planned():
    assert plan.losses(ONE_BROKER, {A0: 10, A1: 0}) == []
    assert [loss.messages for loss in plan.losses(ONE_BROKER, {A0: 4, A1: 0})] == [6]
    assert [loss.queue for loss in plan.losses(ONE_BROKER, {A0: 10, A1: 51})] == [A1]


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_reads_back_and_is_always_in_one_order():
    offsets = {B0: 1, A1: 2, A0: 3}
    written = plan.by_topic(offsets)
    assert list(written["orders"].items()) == [("a:0", 3), ("a:1", 2), ("b:0", 1)]
    assert plan.from_topics(written) == offsets


def test_a_broker_may_have_colons_in_its_name():
    odd = MessageQueue("orders", "x:y", 3)
    assert plan.from_topics(plan.by_topic({odd: 7})) == {odd: 7}


# --- tasks ------------------------------------------------------------------------------------------------------------


def ranges(*sizes):
    return [Range("t", "b", "x:1", number, 1000, 1000 + size) for number, size in enumerate(sizes)]


def covered(groups):
    return sorted((one.queue, offset) for group in groups for one in group for offset in range(one.start, one.end))


@given(st.lists(st.integers(1, 300), min_size=1, max_size=12), st.none() | st.integers(1, 40))
def test_every_message_is_read_by_one_task(sizes, tasks_min):
    groups = plan.grouped(ranges(*sizes), tasks_min)
    assert covered(groups) == covered([ranges(*sizes)])
    assert all(group and all(one.messages > 0 for one in group) for group in groups)
    assert len(groups) >= min(tasks_min or 1, sum(sizes))


def test_little_is_read_by_one_task_and_much_by_a_task_per_queue():
    assert len(plan.grouped(ranges(*[10] * 8), None)) == 1
    assert len(plan.grouped(ranges(*[4_000] * 8), None)) == 4
    assert len(plan.grouped(ranges(*[1_000_000] * 8), None)) == 8


def test_tasks_have_about_as_much_to_do():
    groups = plan.grouped(ranges(9_000, 8_000, 7_000, 3_000, 2_000, 1_000), 3)
    assert sorted(sum(one.messages for one in group) for group in groups) == [10_000, 10_000, 10_000]


def test_more_tasks_than_queues_cut_the_large_ones():
    groups = plan.grouped(ranges(90_000, 10_000), 10)
    assert [one.messages for group in groups for one in group if one.queue == 0] == [10_000] * 9


def test_more_tasks_than_messages_are_as_many_as_messages():
    assert len(plan.grouped(ranges(2, 1), 50)) == 3


def test_many_tasks_are_planned_quickly():
    assert len(plan.grouped(ranges(10**9, 10**9), 100_000)) == 100_000


# --- limits -----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10**6)), min_size=1, max_size=20),
    st.integers(1, 10**6),
)
def test_a_limit_is_kept_but_for_one_message_per_queue(backlogs, limit):
    queues = [queue(MessageQueue("t", "b", at), first, first + size) for at, (first, size) in enumerate(backlogs)]
    starts = {one.name: one.min_offset for one in queues}
    ends = plan.limited(queues, starts, limit)
    taken = {one.name: ends[one.name] - one.min_offset for one in queues}
    assert all(0 <= taken[one.name] <= one.max_offset - one.min_offset for one in queues)
    assert sum(taken.values()) <= max(limit, len(queues)) + len(queues)
    assert all(taken[one.name] for one in queues if one.max_offset > one.min_offset)


def test_a_small_queue_is_not_starved_by_a_large_one():
    large, small = queue(A0, 0, 10**9), queue(A1, 0, 3)
    assert plan.limited([large, small], {A0: 0, A1: 0}, 10)[A1] == 1


def test_a_limit_counts_from_what_is_still_there():
    """Otherwise a reader that retention has overtaken would plan batches of nothing until it is through with them."""
    assert plan.limited([queue(A0, 1_000, 2_000)], {A0: 0}, 10) == {A0: 1_010}
