"""What a consumer wants of a topic: everything, certain tags, or what a SQL expression selects.

Tags are matched by their hashes, in the queue's table; the client looks again. A SQL expression is compiled once and
asked for every message that a pull comes upon, over the message's properties: so that this takes no longer with a long
expression, a pull looks at fewer messages then.
"""

from functools import lru_cache
from typing import NamedTuple

from penstock.core.fetch import Tags
from penstock.gateway.rocketmq.records import Keep
from penstock.gateway.rocketmq.routes import Refused
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import ResponseCode
from penstock.wire.rocketmq.peek import properties_in
from penstock.wire.rocketmq.record import java_hash
from penstock.wire.rocketmq.sql92 import Filter, SqlError, compiled

TAG, SQL = "TAG", "SQL92"

TAGS_CHARS_MAX = 65_536  # of an expression like `A || B`
STRETCH_MESSAGES, STRETCH_MESSAGES_MIN = 256, 16  # that a SQL filter looks at per pull
STRETCH_CHARS = 65_536  # of the expression, once for each of them: some milliseconds
_KEPT = 256  # expressions that need not be read again


class Wanted(NamedTuple):
    """`tags` are hashes, empty for all; a SQL filter looks at so many messages per pull."""

    tags: Tags = frozenset()
    sql: Filter | None = None
    stretch: int = 0

    @property
    def keep(self) -> Keep | None:
        """What looks at single messages, where no table knows their tags; None when all are wanted."""
        if self.sql is not None:
            return self.keeps
        return self.has_tag if self.tags else None

    def has_tag(self, payload: memoryview) -> bool:
        return java_hash(properties_in(payload).get(props.TAGS, "")) in self.tags

    def keeps(self, payload: memoryview) -> bool:
        """Whether the expression selects a message."""
        return self.sql is None or self.sql(properties_in(payload))


ALL = Wanted()


def stretch_of(expression: str) -> int:
    """How many messages a pull with this SQL filter looks at."""
    return max(STRETCH_MESSAGES_MIN, min(STRETCH_MESSAGES, STRETCH_CHARS // max(len(expression), 1)))


def wanted(
    kind: str | None, expression: str, otherwise: ResponseCode = ResponseCode.SUBSCRIPTION_PARSE_FAILED
) -> Wanted:
    """What an expression asks for; refused with the code `otherwise` when it cannot be understood."""
    if not kind or kind == TAG:
        return _tagged(expression)
    if kind != SQL:
        raise Refused(otherwise, f"filters of type {kind[:40]!r} are not known: use {TAG} or {SQL}")
    found = _compiled(expression)
    if isinstance(found, SqlError):
        raise Refused(otherwise, f"the filter {expression[:200]!r} cannot be used: {found}")
    return Wanted(sql=found, stretch=stretch_of(expression))


def _tagged(expression: str) -> Wanted:
    if expression in ("", "*"):
        return ALL
    if len(expression) > TAGS_CHARS_MAX:
        why = f"a subscription of {len(expression)} characters: at most {TAGS_CHARS_MAX} are taken, use fewer tags"
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, why)
    tags = _hashes_of(expression)
    if not tags:
        why = f"there is no tag in the subscription {expression[:200]!r}: write * for all messages"
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, why)
    return Wanted(tags)


@lru_cache(_KEPT)
def _hashes_of(expression: str) -> Tags:
    """The tag hashes that an expression like `A || B` asks for."""
    return frozenset(java_hash(tag.strip()) for tag in expression.split("||") if tag.strip())


@lru_cache(_KEPT)
def _compiled(expression: str) -> Filter | SqlError:
    """What is wrong with it is kept as well: clients ask again and again."""
    try:
        return compiled(expression)
    except SqlError as error:
        return SqlError(str(error))  # without the frames that it came through
