"""Positions as requests give them: "earliest", "latest", or a message's id as a JSON object."""

import msgspec

from penstock.core.fetch import Fetcher
from penstock.gateway.pulsar.admin.answers import Declined
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.positions import sought_row
from penstock.wire.pulsar import commands_pb2 as pb

_UNSIGNED = (1 << 64) - 1
_LARGEST = (1 << 63) - 1


class Position(msgspec.Struct, rename="camel"):
    """A message's id. With `is_excluded` what is meant begins behind the message; Java's client calls it `excluded`."""

    ledger_id: int
    entry_id: int
    partition_index: int = -1
    batch_index: int = -1
    is_excluded: bool = False
    properties: dict[str, str] | None = None
    excluded: bool = False

    def __post_init__(self) -> None:
        self.is_excluded, self.excluded = self.is_excluded or self.excluded, False


EARLIEST, LATEST = Position(-1, -1), Position(_LARGEST, _LARGEST)
WORDS = {"earliest": EARLIEST, "latest": LATEST}
_DECODER: msgspec.json.Decoder[str | Position | None] = msgspec.json.Decoder(str | Position | None)


def position_in(asked: Asked, default: Position | None = None) -> Position:
    """The position that the body gives."""
    body = asked.body(_DECODER, None)
    if isinstance(body, str):
        body = WORDS.get(body)
        if body is None:
            raise Declined(412, 'a position in words is "earliest" or "latest"')
    if body is None:
        body = default
    if body is None:
        raise Declined(412, "the body has to give a position: an object with ledgerId and entryId")
    return body


def row_of(position: Position, queue: int, fetcher: Fetcher) -> int:
    """The first row that is meant: the message's own, the next that is there, or the one behind it."""
    id = pb.MessageIdData(ledgerId=position.ledger_id & _UNSIGNED, entryId=position.entry_id & _UNSIGNED)
    row = sought_row(id, queue, fetcher)
    is_there = position.ledger_id == queue and position.entry_id == row < fetcher.rows(queue)[1]
    return row + 1 if position.is_excluded and is_there else row
