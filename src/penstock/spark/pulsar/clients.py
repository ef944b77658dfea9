"""Pulsar's own client, as this source uses it: where it comes from, how it reads, what its errors mean.

It is not loaded before it is needed: it is an extra, and its library starts threads.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.client.errors import ClientError, Unreachable
from penstock.errors import ConfigError
from penstock.spark.pulsar.positions import EARLIEST, Place
from penstock.wire.pulsar import commands_pb2 as pb

if TYPE_CHECKING:
    import pulsar

OPERATION_TIMEOUT_S = 30
MESSAGE_TIMEOUT_MS = 30_000
PREFETCHED = 1_000
LOOK_BACK = 8  # entries


def library() -> Any:
    try:
        import pulsar
    except ImportError:
        raise ConfigError(
            "a service pulsar:// is read by Pulsar's own client, which is not there: pip install penstock[pulsar]"
        ) from None
    return pulsar


@contextmanager
def connected(service: str) -> "Iterator[pulsar.Client]":
    """A client, for as long as it is needed."""
    client = new_client(service)
    try:
        with sentences(service):
            yield client
    finally:
        client.close()


def new_client(service: str) -> "pulsar.Client":
    pulsar = library()
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)  # it would tell of every connection, on standard output
    return pulsar.Client(service, operation_timeout_seconds=OPERATION_TIMEOUT_S, logger=quiet)


@contextmanager
def sentences(service: str) -> Iterator[None]:
    """What the client raises, as an error of ours."""
    pulsar = library()
    try:
        yield
    except (pulsar.ConnectError, pulsar.Timeout, pulsar.ServiceUnitNotReady) as error:
        raise Unreachable(service, f"Pulsar's client says {error}") from None
    except pulsar.PulsarException as error:
        raise ClientError(f"{service}: Pulsar's client says {error}") from None


class Silent(ClientError):
    """There should be messages, the connection is fine, and nothing comes."""

    def __init__(self, partition: str) -> None:
        super().__init__(
            f"{partition} has more entries, and no message of them came within {MESSAGE_TIMEOUT_MS} ms: chunks whose "
            "rest was never sent, or messages of a transaction that was aborted"
        )


class Reader:
    """The messages of one partition from a place on, in order, to their end as it is when it is asked.

    It begins some entries before the place, so messages from before it come too: a message in chunks is known by its
    last one, and can only be put together by who has seen the first.
    """

    def __init__(self, client: "pulsar.Client", partition: str, start: Place, prefix: str) -> None:
        pulsar = library()
        first = pulsar.MessageId.earliest
        if start != EARLIEST:
            first = pulsar.MessageId(-1, start.ledger, max(start.entry - LOOK_BACK, 0), -1)
        more = {}
        if hasattr(pulsar, "ConsumerCryptoFailureAction"):  # what is encrypted is handed on as it is
            more["crypto_failure_action"] = pulsar.ConsumerCryptoFailureAction.CONSUME
        self._reader = client.create_reader(
            partition,
            first,
            receiver_queue_size=PREFETCHED,
            subscription_role_prefix=prefix,
            start_message_id_inclusive=True,
            **more,
        )
        self.close, self._partition, self._timeout = self._reader.close, partition, pulsar.Timeout

    def seek(self, time_ms: int) -> None:
        self._reader.seek(time_ms)

    def next(self) -> "tuple[Place, pulsar.Message] | None":
        """The next message and where it is; None when all that there are have come."""
        if not self._reader.has_message_available():
            return None
        try:
            message = self._reader.read_next(MESSAGE_TIMEOUT_MS)
        except self._timeout:
            if self._reader.is_connected():
                raise Silent(self._partition) from None
            raise
        return place_of(message.message_id()), message


def place_of(id: Any) -> Place:
    return Place.of(id.ledger_id(), id.entry_id(), max(id.batch_index(), 0))


def began_at(message: "pulsar.Message") -> Place:
    """The place of a message's first entry: another one than its own when it came in chunks."""
    id = message.message_id()
    said = pb.MessageIdData.FromString(id.serialize())
    if not said.HasField("first_chunk_message_id"):
        return place_of(id)
    return Place.of(said.first_chunk_message_id.ledgerId, said.first_chunk_message_id.entryId)


def first_place(client: "pulsar.Client", partition: str, prefix: str) -> Place | None:
    """Where the first message is that there is."""
    reader = Reader(client, partition, Place(EARLIEST), prefix)
    try:
        found = reader.next()
    finally:
        reader.close()
    return began_at(found[1]) if found else None
