"""What the targets share: how a find is told, and bytes that come in pieces."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from penstock.gateway.inbox import Inbox, Reception

HELD_BYTES_MAX = 1 << 20
T = TypeVar("T")


class Find(AssertionError):
    """A decoder has answered wrongly."""


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Find(what)


def piecemeal(data: bytes, read: Callable[[memoryview, int], tuple[list[T], int]]) -> Iterator[T]:
    """What `read` finds when the bytes come in about seven pieces, as they would from a socket."""
    inbox, at, step = Inbox(Reception(HELD_BYTES_MAX, "a setting")), 0, 1 + len(data) // 7
    while at < len(data):
        buffer = inbox.buffer()
        part = data[at : at + min(step, len(buffer))]
        buffer[: len(part)] = part
        view, end = inbox.filled(len(part))
        found, used = read(view, end)
        yield from found
        inbox.keep(view, used, end)
        at += len(part)
