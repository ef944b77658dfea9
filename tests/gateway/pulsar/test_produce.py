"""Sends: stored as they came, answered in order, each once."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.pulsar.conftest import client_of, metadata, one, send_frame, several, stored

from penstock.config import Config, ServerConfig
from penstock.errors import StoreReadOnly
from penstock.gateway.pulsar.produce import Call, Receipts
from penstock.testing.server import PORTS, serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.batch import opened_entry, single_of

NOWHERE = 2**64 - 1


def config_at(folder: Path) -> Config:
    return Config(server=ServerConfig(data=str(folder), **dict.fromkeys(PORTS, 0)))


async def test_a_message_is_stored_as_it_came(client, penstock):
    await client.producer("orders")
    queue = penstock.server.broker.topics.get("orders").queue(0)
    for number in range(3):
        receipt = await client.send(one(b"%d" % number, number), number)
        assert (receipt.producer_id, receipt.sequence_id) == (0, number)
        assert (receipt.message_id.ledgerId, receipt.message_id.entryId) == (queue, number)
    assert stored(penstock, "orders") == [one(b"%d" % number, number) for number in range(3)]


async def test_a_batch_is_one_entry_and_takes_an_offset_for_each_message(client, penstock):
    await client.producer("orders")
    batch = several([b"a", b"b", b"c"])
    receipt = await client.send(batch, 0, num_messages=3, highest_sequence_id=2)
    assert (receipt.sequence_id, receipt.highest_sequence_id, receipt.message_id.entryId) == (0, 2, 0)
    assert (await client.send(one(b"d", 3), 3)).message_id.entryId == 1
    assert stored(penstock, "orders") == [batch, one(b"d", 3)]
    broker = penstock.server.broker
    assert broker.fetcher.bounds(broker.topics.get("orders").queue(0)).max_offset == 4


async def test_all_sends_of_one_read_are_one_append(client, penstock, monkeypatch):
    calls: list[int] = []
    append = penstock.server.broker.store.append

    def counted(entries, **more):
        calls.append(len(entries))
        return append(entries, **more)

    await client.producer("orders", 0)
    await client.producer("payments", 1)
    monkeypatch.setattr(penstock.server.broker.store, "append", counted)
    frames = [send_frame(one(b"x", number), number, number % 2) for number in range(20)]
    client.write(b"".join(frames))
    receipts = [await client.next("send_receipt") for _ in frames]
    assert [(receipt.producer_id, receipt.sequence_id) for receipt in receipts] == [(n % 2, n) for n in range(20)]
    assert [count for count in calls if count] == [20]


async def test_a_partition_is_a_queue_of_its_topic():
    async with serving(pulsar={"auto_create_partitions": 3}) as many, client_of(many) as client:
        await client.partitions("orders")
        for index in range(3):
            await client.producer(f"orders-partition-{index}", index)
            await client.send(one(b"%d" % index), 0, index)
        assert [stored(many, "orders", index) for index in range(3)] == [[one(b"%d" % index)] for index in range(3)]


async def test_what_was_stored_is_there_after_a_restart(tmp_path):
    config = config_at(tmp_path)
    async with serving(config) as penstock, client_of(penstock) as client:
        await client.producer("orders")
        await client.send(one(b"first"))
        await client.send(several([b"second", b"third"]), 1, num_messages=2)
    async with serving(config) as penstock, client_of(penstock) as client:
        await client.producer("orders")
        assert (await client.send(one(b"fourth"))).message_id.entryId == 2
        entries = stored(penstock, "orders")
        bodies = [message.body for entry in entries for message in opened_entry(memoryview(entry), True).messages]
        assert bodies == [b"first", b"second", b"third", b"fourth"]


async def test_what_is_encrypted_is_passed_on_as_it_is(client, penstock):
    """Nobody here has the key, and nobody needs it: a batch counts what its metadata says."""
    await client.producer("orders", encrypted=True)
    keys = [pb.EncryptionKeys(key="k", value=b"wrapped")]
    whole = metadata(num_messages_in_batch=3, encryption_keys=keys, encryption_algo="AES", encryption_param=b"iv")
    payload = single_of(whole, bytes(64))
    await client.send(payload, num_messages=3)
    assert stored(penstock, "orders") == [payload]


# --- refusals ---------------------------------------------------------------------------------------------------------


def damaged(payload: bytes) -> bytes:
    return payload[:-1] + bytes((payload[-1] ^ 1,))


@pytest.mark.parametrize(
    ("payload", "more", "error"),
    [
        (damaged(one(b"x")), {}, pb.ChecksumError),
        (several([b"a", b"b"]), {}, pb.NotAllowedError),
        (one(b"x"), {"num_messages": 2}, pb.NotAllowedError),
        (b"", {}, pb.NotAllowedError),
        (one(b"x"), {"txnid_most_bits": 0, "txnid_least_bits": 1}, pb.NotAllowedError),
        (one(b"x"), {"message_id": pb.MessageIdData(ledgerId=1, entryId=1)}, pb.NotAllowedError),
    ],
    ids=["damaged", "batch", "claimed", "empty", "transaction", "copy"],
)
async def test_what_cannot_be_stored_is_refused_in_its_place(client, penstock, payload, more, error):
    await client.producer("orders")
    frames = [send_frame(one(b"0", 0), 0), send_frame(payload, 1, **more), send_frame(one(b"2", 2), 2)]
    client.write(b"".join(frames))
    refused = await client.next("send_error")
    assert (refused.producer_id, refused.sequence_id, refused.error) == (0, 1, error)
    await client.next("send_receipt")
    assert (await client.next("send_receipt")).message_id.entryId == 1
    assert client.order[-3:] == ["send_receipt", "send_error", "send_receipt"]
    assert stored(penstock, "orders") == [one(b"0", 0), one(b"2", 2)]


async def test_a_refusal_waits_for_what_was_sent_before(client, penstock):
    """Sent apart, so that the refusal comes alone: the answers are in order all the same."""
    await client.producer("orders")
    for number in range(20):
        client.send_later(one(b"x", number), number)
        client.send_later(damaged(one(b"x", number)), 100 + number)
        await asyncio.sleep(0)
    for _ in range(20):
        await client.next("send_error")
    assert client.order[-40:] == ["send_receipt", "send_error"] * 20


async def test_a_batch_is_refused_by_its_last_number(client):
    await client.producer("orders")
    client.send_later(damaged(several([b"a", b"b"], 4)), 4, num_messages=2, highest_sequence_id=5)
    assert (await client.next("send_error")).sequence_id == 5


async def test_a_log_that_takes_nothing(client, penstock, monkeypatch):
    await client.producer("orders")

    def read_only(*args, **more):
        raise StoreReadOnly("the disk failed")

    monkeypatch.setattr(penstock.server.broker.store, "append", read_only)
    client.send_later(one(b"x"))
    refused = await client.next("send_error")
    assert refused.error == pb.PersistenceError
    assert "the disk failed" in refused.message


async def test_the_largest_message(client, penstock):
    """Clients count less than comes: there is room beyond the limit that they are told."""
    await client.producer("orders")
    largest = one(bytes(5 * 1024 * 1024))
    await client.send(largest)
    assert stored(penstock, "orders") == [largest]


# --- once -------------------------------------------------------------------------------------------------------------


async def test_without_deduplication_nothing_is_remembered(client, penstock):
    await client.producer("orders", producer_name="mine")
    await client.send(one(b"x"), 5)
    assert (await client.send(one(b"x"), 5)).message_id.entryId == 1
    await client.close_producer()
    assert (await client.producer("orders", producer_name="mine")).last_sequence_id == -1


async def test_with_deduplication_a_message_is_stored_once():
    async with serving(pulsar={"deduplication": True}) as penstock, client_of(penstock) as client:
        await client.producer("orders", producer_name="mine")
        await client.send(one(b"x"), 5)
        again = await client.send(one(b"x"), 5)
        assert (again.message_id.ledgerId, again.message_id.entryId) == (NOWHERE, NOWHERE)
        batch = several([b"a", b"b", b"c"], 6)
        for _ in range(2):
            await client.send(batch, 6, num_messages=3, highest_sequence_id=8)
        await client.close_producer()
        assert (await client.producer("orders", producer_name="mine")).last_sequence_id == 8
        assert (await client.producer("orders", 1, producer_name="other")).last_sequence_id == -1
        assert stored(penstock, "orders") == [one(b"x"), batch]


async def test_a_message_that_comes_twice_in_one_read_is_stored_once():
    async with serving(pulsar={"deduplication": True}) as penstock, client_of(penstock) as client:
        await client.producer("orders", producer_name="mine")
        client.write(send_frame(one(b"x"), 0) * 3)
        places = [(await client.next("send_receipt")).message_id.entryId for _ in range(3)]
        assert places == [0, NOWHERE, NOWHERE]


async def test_chunks_have_one_number_and_are_all_stored():
    """Only the last counts as the message: sent again as a whole, it is found there."""

    def chunk(number: int) -> bytes:
        chunked = metadata(7, uuid="mine-7", num_chunks_from_msg=3, total_chunk_msg_size=3, chunk_id=number)
        return single_of(chunked, b"c")

    async with serving(pulsar={"deduplication": True}) as penstock, client_of(penstock) as client:
        await client.producer("orders", producer_name="mine")
        receipts = [await client.send(chunk(number), 7, is_chunk=True) for number in range(3)]
        assert [receipt.message_id.entryId for receipt in receipts] == [0, 1, 2]
        assert (await client.send(chunk(2), 7, is_chunk=True)).message_id.entryId == NOWHERE


async def test_a_number_that_cannot_be_remembered_is_refused():
    async with serving(pulsar={"deduplication": True}) as penstock, client_of(penstock) as client:
        await client.producer("orders", producer_name="mine")
        client.send_later(one(b"x"), 2**63)
        assert (await client.next("send_error")).error == pb.NotAllowedError
        await client.send(one(b"x"), 2**63 - 1)


async def test_deduplication_survives_a_restart(tmp_path):
    config = config_at(tmp_path)
    config.pulsar.deduplication = True
    async with serving(config) as penstock, client_of(penstock) as client:
        await client.producer("orders", producer_name="mine")
        await client.send(one(b"x"), 41)
    async with serving(config) as penstock, client_of(penstock) as client:
        assert (await client.producer("orders", producer_name="mine")).last_sequence_id == 41
        assert (await client.send(one(b"x"), 41)).message_id.entryId == NOWHERE


# --- the line of answers ----------------------------------------------------------------------------------------------


class Line:
    """A connection as far as receipts need one."""

    def __init__(self) -> None:
        self.under_way, self.written = 0, []

    def write_all(self, packed: list[bytes]) -> None:
        self.written.append(packed)

    def balance(self) -> None:
        pass


@settings(max_examples=50)
@given(st.permutations(range(6)))
def test_answers_leave_in_order_whenever_their_fate_is_known(order):
    line = Line()
    receipts = Receipts(line)
    calls = [Call() for _ in range(6)]
    for number, call in enumerate(calls):
        call.sends = [number]
        receipts.add(call)
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.gateway.pulsar.produce.answers", lambda call: call.sends)
        for settled, number in enumerate(order, 1):
            receipts.settle(calls[number], None)
            seen = [sent for written in line.written for sent in written]
            assert seen == [each for each in range(6) if set(range(each + 1)) <= set(order[:settled])]
            assert line.under_way == 6 - len(seen)
    assert len(seen) == 6
