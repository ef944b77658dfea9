"""Messages by their keys, frame by frame."""

import pytest

from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.peek import has_key, keys_in, properties_in
from penstock.wire.rocketmq.record import Record, length_of, messages_in

EVER = 2**63 - 1


async def send(client, body, keys="", unique="", queue=0):
    found = {props.KEYS: keys, props.UNIQ_KEY: unique, "__SHARDINGKEY": "shard"}
    return await client.send("orders", body, queue=queue, properties=props.build(found))


async def query(client, key, unique="false", topic="orders", most=64, begin=0, end=EVER, **more):
    asked = {"topic": topic, "key": key, "maxNum": most, "beginTimestamp": begin, "endTimestamp": end}
    return await client.ask(RequestCode.QUERY_MESSAGE, {**asked, "_UNIQUE_KEY_QUERY": unique, **more})


def bodies(answer):
    return [message.body for message in messages_in(answer.body)]


async def test_by_key(client):
    await send(client, b"one", "k1 shared")
    await send(client, b"two", "k2 shared", queue=1)
    await send(client, b"none")
    answer = await query(client, "k2")
    assert (answer.code, bodies(answer)) == (ResponseCode.SUCCESS, [b"two"])
    assert int(answer.ext["indexLastUpdateTimestamp"]) > 0
    assert answer.ext["indexLastUpdatePhyoffset"] == "0"
    assert sorted(bodies(await query(client, "shared"))) == [b"one", b"two"]
    assert len(bodies(await query(client, "shared", most=1))) == 1


async def test_by_unique_key(client):
    await send(client, b"one", "UNIQUE2", unique="UNIQUE1")
    await send(client, b"two", unique="UNIQUE2")
    assert bodies(await query(client, "UNIQUE1", "true")) == [b"one"]
    assert bodies(await query(client, "UNIQUE2", "true", most=0)) == [b"two"]  # not who has it among other keys
    assert bodies(await query(client, "UNIQUE1", indexType="U")) == [b"one"]
    assert sorted(bodies(await query(client, "UNIQUE2"))) == [b"one", b"two"]


async def test_by_tag(client):
    for number, tag in enumerate(("Aa", "BB", "", "Aa")):  # the first two have one hash
        await client.send("orders", b"%d" % number, queue=number, properties=props.build({props.TAGS: tag}))
    assert sorted(bodies(await query(client, "Aa", indexType="T"))) == [b"0", b"3"]
    assert (await query(client, "Cc", indexType="T")).code == ResponseCode.QUERY_NOT_FOUND


async def test_a_topic_that_nobody_may_read(client):
    assert (await query(client, "k", topic="RMQ_SYS_TRANS_HALF_TOPIC")).code == ResponseCode.NO_PERMISSION


async def test_messages_of_a_batch_are_found(client):
    await client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    parts = []
    for number in range(3):
        body, own = b"in batch %d" % number, f"KEYS\x01k{number}".encode()
        length = 22 + len(body) + len(own)
        head = b"".join(value.to_bytes(4, "big") for value in (length, 0, 0, 0, len(body)))
        parts.append(head + body + len(own).to_bytes(2, "big") + own)
    await client.send("orders", b"".join(parts), m="true")
    assert bodies(await query(client, "k1")) == [b"in batch 1"]


async def test_nothing_is_found(client):
    assert (await query(client, "k")).code == ResponseCode.TOPIC_NOT_EXIST
    await send(client, b"one", "k1")
    for key, begin, end in (("k2", 0, EVER), ("shard", 0, EVER), ("k1", 0, 1), ("k1", EVER, EVER), ("", 0, EVER)):
        assert (await query(client, key, begin=begin, end=end)).code == ResponseCode.QUERY_NOT_FOUND
    assert (await query(client, "k1", begin="soon")).code == ResponseCode.SYSTEM_ERROR
    assert bodies(await query(client, "k1")) == [b"one"]  # and the connection lives on


@pytest.mark.parametrize("hosts", [(8, 8), (20, 8), (8, 20), (20, 20)])
def test_properties_are_found_in_a_record(hosts):
    text = props.build({"KEYS": "a b", "UNIQ_KEY": "u", "colour": "red"})
    flags = (0x10 if hosts[0] == 20 else 0) | (0x20 if hosts[1] == 20 else 0)
    record = Record(
        queue=1,
        length=0,
        topic=b"orders",
        body=b"KEYS\x01of the body\x02",
        properties=text.encode(),
        sys_flag=flags,
        born_host=bytes(hosts[0]),
        store_host=bytes(hosts[1]),
    )
    record.length = length_of(record)
    data = memoryview(bytearray(record.length))
    record.write_into(data, 0, 1, 5, 99)
    assert properties_in(data) == {"KEYS": "a b", "UNIQ_KEY": "u", "colour": "red"}
    assert {b"a", b"b", b"u"} <= set(keys_in(data))
    assert has_key(data, "a", unique=False)
    assert has_key(data, "u", unique=True)
    assert not has_key(data, "a", unique=True)
    for cut in range(len(data)):
        properties_in(data[:cut])  # whatever it is, it does not fail
        keys_in(data[:cut])
