"""The troubles that a history of events can show: one rule per cause.

A rule says which events are marks of its cause and what each of them adds to a session, how far apart they may be
within one, when a session counts as trouble, and how to say so in a sentence. Adding a cause adds a line of `RULES`;
all of it is SQL over the columns of `history` (marks) and of `sessions` (the rest).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.spark.pipelines.sessions import mark

MINUTE_S = 60
TOLD_EVERY_MINUTE_S = 150  # what is told every minute has ended when it was not told twice
BACKLOG_MIN = 1_000  # messages; what is less is no backlog
RETRY_PREFIX = "%RETRY%"


class Mark(NamedTuple):
    """Events that are marks, and what they say: columns of a session."""

    events: str
    says: Mapping[str, str] = {}


class Rule(NamedTuple):
    """`counts` may ask for `open` as well; `says` is a format and what goes into it."""

    marks: tuple[Mark, ...]
    gap_s: int
    counts: str
    says: str


_TOPIC = {"topic": "topic"}
_MEMBER = {"topic": "topic", "member": "client_id"}
_LAG = {
    "topic": "topic",
    "lag_first": "lag",
    "lag_last": "lag",
    "lag_peak": "lag",
    "grew": "if(produced > consumed, 1, 0)",
    "gain_per_minute": "if(over_ms > 0, (consumed - produced) * 60000.0 / over_ms, 0)",
}
_MOVED = Mark("kind = 'OffsetMoved'", {**_MEMBER, "queues": "array(queue)"})
_SERVED = {"count": "0", "healed": "true"}
_WHO = "array_join(slice(who, 1, 5), ', ')"
_QUEUES = "array_join(queues, ', ')"

RULES = {
    "doubled_client_id": Rule(
        (Mark("kind = 'MemberDoubled'", {"member": "client_id", "who": "addresses"}),),
        TOLD_EVERY_MINUTE_S,
        "count >= 2",  # a connection that was lost and came again is there twice for a moment
        "'ClientID %s was there from several places at once (%s): they read the same queues, and others had no reader; "
        f"give each process a ClientID of its own', member, {_WHO}",
    ),
    "refused_pulls": Rule(
        (
            Mark("kind = 'PullRefused' AND coalesce(code, 25) = 25", _MEMBER),  # older events have no code
            Mark("kind = 'RefusalsOver'", {**_MEMBER, **_SERVED, "start": "timestamp_millis(since_ms)", "end": "at"}),
        ),
        30,
        "count >= 1",
        "'%d pulls were refused with code 25: the subscription of %s was newer than its last heartbeat; %s', count, "
        "if(member = '', 'somebody', member), "
        "if(healed, 'it passed by itself', 'none of its pulls was served afterwards')",
    ),
    "rebalance_storm": Rule(
        (
            Mark("kind IN ('MemberJoined', 'MemberLeft')", {"who": "array(client_id)"}),
            Mark("kind = 'RebalanceSeen'", {"count": "0"}),  # of others, because of it: the session is longer
        ),
        2 * MINUTE_S,
        "count >= 10 AND count >= 3 * size(who)",  # a deployment makes each ClientID come and go once
        "'%d times a member came or went, %d ClientIDs in all (%s), and each time all share the queues anew: look for "
        f"instances that crash, or that take too long to answer', count, size(who), {_WHO}",
    ),
    "offset_outside": Rule(
        (_MOVED,),
        2 * MINUTE_S,
        "count < 3 * size(queues)",
        "'%d pulls asked for offsets outside of queues %s and were corrected: what is kept as progress is not of these "
        f"queues, or retention has overtaken it', count, {_QUEUES}",
    ),
    "correction_loop": Rule(
        (_MOVED,),
        2 * MINUTE_S,
        "count >= 3 * size(queues)",
        "'%d pulls of queues %s were corrected, the same ones again and again: the instance does not keep what it is "
        f"told; stop it, delete its offsets file and start it', count, {_QUEUES}",
    ),
    "unread_queues": Rule(
        (Mark("kind = 'LagMinute' AND size(unread) > 0", {**_LAG, "queues": "unread"}),),
        TOLD_EVERY_MINUTE_S,
        "count >= 2",
        "'nobody read queues %s, though the group had members: look for two with one ClientID, or for some that share "
        f"the queues by different rules', {_QUEUES}",
    ),
    "queues_read_twice": Rule(
        (Mark("kind = 'LagMinute' AND size(read_twice) > 0", {**_TOPIC, "queues": "read_twice"}),),
        TOLD_EVERY_MINUTE_S,
        "count >= 2",
        f"'queues %s were read by several members at once: their messages were consumed more than once', {_QUEUES}",
    ),
    "backlog": Rule(
        (Mark(f"kind = 'LagMinute' AND lag >= {BACKLOG_MIN}", _LAG),),
        TOLD_EVERY_MINUTE_S,
        "grew >= 3",
        "'the backlog went from %d to %d messages, %d at most; at the end it %s by %.0f a minute', "
        "lag_first, lag_last, lag_peak, if(gain_per_minute > 0, 'shrank', 'grew'), abs(gain_per_minute)",
    ),
    "nobody_there": Rule(
        (Mark("kind = 'LagMinute' AND members = 0 AND produced > 0", _LAG),),
        10 * MINUTE_S,
        "count >= 3",
        "'nobody was in the group while messages came, and %d wait: start it, or delete the group if nobody needs it', "
        "lag_last",
    ),
    "subscriptions_differ": Rule(
        (Mark("kind = 'SubscriptionChanged'", {**_TOPIC, "who": "array(client_id)"}),),
        2 * MINUTE_S,
        "count >= 4 AND size(who) >= 2",
        "'members do not agree on what the group subscribes to (%s): it changed %d times, and each loses what only the "
        f"others ask for', {_WHO}, count",
    ),
    "reset_unconfirmed": Rule(
        (
            Mark("kind = 'ResetTold'", {**_TOPIC, "member": "address", "who": "array(client_id)"}),
            Mark("kind = 'ResetConfirmed'", {**_TOPIC, **_SERVED, "member": "address"}),
        ),
        10 * MINUTE_S,
        "NOT healed AND NOT open",
        f"'%s at %s was told of a reset and did not ask for the new offsets', {_WHO}, member",
    ),
}
GAPS_S = {cause: rule.gap_s for cause, rule in RULES.items()}


def marks(told: DataFrame) -> DataFrame:
    """Of all causes, in one pass; topics of retries have no troubles of their own, but a backlog."""
    each = [f"if({one.events}, {mark(cause, one.says)}, NULL)" for cause, rule in RULES.items() for one in rule.marks]
    found = told.select(f.expr(f"explode(filter(array({', '.join(each)}), one -> one IS NOT NULL)) AS mark"))
    every = found.select("mark.*").where(f.col("group").isNotNull())
    return every.where(~f.col("topic").startswith(RETRY_PREFIX) | (f.col("cause") == "backlog"))


def by_cause(what: Callable[[Rule], object]) -> str:
    """Something of the rule of a session's cause, as SQL."""
    cases = " ".join(f"WHEN '{cause}' THEN {what(rule)}" for cause, rule in RULES.items())
    return f"CASE cause {cases} END"
