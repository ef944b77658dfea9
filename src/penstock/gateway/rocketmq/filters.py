"""What a consumer wants of a topic: everything, certain tags, or what a SQL expression selects.

Tags are matched by their hashes, in the queue's table; the client looks again. A SQL expression is compiled once and
asked for every message that a pull comes upon, over the message's properties.
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

_compiled = lru_cache(maxsize=256)(compiled)  # an expression may have 10,000 characters


class Wanted(NamedTuple):
    """`tags` are hashes, empty for all."""

    tags: Tags = frozenset()
    sql: Filter | None = None

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


def wanted(
    kind: str | None, expression: str, otherwise: ResponseCode = ResponseCode.SUBSCRIPTION_PARSE_FAILED
) -> Wanted:
    """What an expression asks for; refused with the code `otherwise` when it cannot be understood."""
    if not kind or kind == TAG:
        tags = hashes_of(expression)
        return Wanted(tags) if tags else ALL
    if kind != SQL:
        raise Refused(otherwise, f"filters of type {kind[:40]!r} are not known: use {TAG} or {SQL}")
    try:
        return Wanted(sql=_compiled(expression))
    except SqlError as error:
        raise Refused(otherwise, f"the filter {expression[:200]!r} cannot be used: {error}") from None


def hashes_of(expression: str) -> Tags:
    """The tag hashes that an expression like `A || B` asks for; empty for all."""
    if expression in ("", "*"):
        return frozenset()
    return frozenset(java_hash(tag.strip()) for tag in expression.split("||") if tag.strip())
