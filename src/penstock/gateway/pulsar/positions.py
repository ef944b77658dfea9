"""From message ids to rows: a ledger is a queue, an entry is a row of its table.

Ids that name no message: the earliest is below every ledger (-1), the latest above every (the largest number); an id of
another ledger is before or behind this one's messages, as its number is.
"""

from penstock.core.fetch import Fetcher
from penstock.wire.pulsar import commands_pb2 as pb

_NEGATIVE = 1 << 63  # from here on an unsigned number is a negative one
_Earliest = pb.CommandSubscribe.Earliest


def row_of(id: pb.MessageIdData, queue: int, initial: int, fetcher: Fetcher, compacted: bool = False) -> int:
    """The row that is read first when a reader begins at an id. Behind the last message `initial` decides."""
    first, behind = bounds(queue, fetcher, compacted)
    if id.ledgerId >= _NEGATIVE or id.ledgerId < queue:
        return first
    if id.ledgerId > queue or (id.entryId < _NEGATIVE and id.entryId >= behind):
        return first if initial == _Earliest and id.ledgerId == queue else behind
    return first if id.entryId >= _NEGATIVE else max(first, id.entryId)


def bounds(queue: int, fetcher: Fetcher, compacted: bool) -> tuple[int, int]:
    """The first row, and the one behind the last. Compacted, a queue begins where it always did: the last message with
    a key is there also when retention has taken it.
    """
    first, behind = fetcher.rows(queue)
    return 0 if compacted else first, behind


def start_row(asked: pb.CommandSubscribe, queue: int, fetcher: Fetcher, now_ms: int) -> int:
    """Where a new subscription begins."""
    first, behind = bounds(queue, fetcher, asked.read_compacted)
    if asked.start_message_rollback_duration_sec:
        return fetcher.row_at_time(queue, max(0, now_ms - 1_000 * asked.start_message_rollback_duration_sec))
    if not asked.durable and asked.HasField("start_message_id"):
        return row_of(asked.start_message_id, queue, asked.initialPosition, fetcher, asked.read_compacted)
    return first if asked.durable and asked.initialPosition == _Earliest else behind


def sought_row(id: pb.MessageIdData, queue: int, fetcher: Fetcher, compacted: bool = False) -> int:
    """The row that a seek goes to: the id's own, or the next that is there."""
    return min(row_of(id, queue, pb.CommandSubscribe.Latest, fetcher, compacted), fetcher.rows(queue)[1])
