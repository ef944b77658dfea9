"""Whether a default value is one of its type. A union's default is one of its first branch, as Avro has it.

Records of records whose fields all have defaults can be many: whoever asks says how much may be looked at (`spend`).
"""

from collections.abc import Callable
from typing import Any

from penstock.core.schemas.avro import (
    ARRAY,
    BOOLEAN,
    BYTES,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    LONG,
    MAP,
    NO_DEFAULT,
    NULL,
    RECORD,
    STRING,
    UNION,
    Node,
)

Spend = Callable[[int], None]  # called with the depth for each value; raises when it is enough

_PLAIN: dict[str, type | tuple[type, ...]] = {
    BOOLEAN: bool,
    STRING: str,
    BYTES: str,
    FIXED: str,
    ENUM: str,
    ARRAY: list,
    MAP: dict,
    RECORD: dict,
}
_NUMBERS = (INT, LONG, FLOAT, DOUBLE)


def fits(value: Any, node: Node, spend: Spend, depth: int = 0) -> bool:
    spend(depth)
    if node.kind == UNION:
        return bool(node.branches) and fits(value, node.branches[0], spend, depth + 1)
    if node.kind == NULL:
        return value is None
    if node.kind in _NUMBERS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(value, _PLAIN[node.kind]):
        return False
    return _inside(value, node, spend, depth + 1)


def _inside(value: Any, node: Node, spend: Spend, depth: int) -> bool:
    if node.kind == RECORD:
        given = [(value.get(each.name, each.default), each.type) for each in node.fields]
        return all(inner is not NO_DEFAULT and fits(inner, kind, spend, depth) for inner, kind in given)
    if node.items is not None:
        inner = value.values() if node.kind == MAP else value
        return all(fits(each, node.items, spend, depth) for each in inner)
    return node.kind != ENUM or value in node.symbols
