"""Schemas with Pulsar's client for Java, which is the one that has all of them: evolved, refused, generic, by HTTP, and
as its tools for operators see them. The stories are told by one process; here is what they have to say. What Go's has
is tried too; Python's: `tests/gateway/pulsar/test_python_schemas.py`.

And whether one schema can read what another wrote is asked of Avro's own library, for thousands of pairs.
"""

import json
import subprocess
from collections import defaultdict

import pytest
from tests.compat.conftest import unavailable
from tests.compat.pulsar import toolchain
from tests.compat.pulsar.drivers import Told
from tests.compat.pulsar.stories import only
from tests.compat.rocketmq.toolchain import Missing
from tests.core.schemas.generated import pair

from penstock.core.schemas.avro import AvroError, parsed
from penstock.core.schemas.resolution import can_read

PAIRS = 5_000
TIMEOUT_S = 90
NO = "IncompatibleSchemaException"
EVOLVED = {"users": "a1 b2 c3", "members": "a1null b2b@c c3null", "versions": "0/8 1/8 0/8"}
PAIR = {"value": "ka1", "next": "lb2", "version": "1/8", "generic": "ka", "other key": NO, "other value": NO}
AUTO = {"read": "a1:2 b2:3 c3:3", "kind": "AVRO", "not such bytes": "SchemaSerializationException"}
TOLD = {
    "avro": EVOLVED,
    "json": EVOLVED,
    "refused": {
        "producer": NO,
        "consumer": NO,
        "other kind": NO,
        "string": NO,
        "bytes": "none",
        "right": "none",
    },
    "inline": PAIR | {"key": "false"},
    "separated": PAIR | {"key": "true"},
    "primitives": {
        "string": "text",
        "int8": "-8",
        "int16": "300",
        "int32": "-7",
        "int64": str(1 << 40),
        "float": "0.5",
        "double": "1.5",
        "bool": "true",
        "instant": "1970-01-01T00:00:05Z",
        "date": "2024-02-29",
        "time": "01:02:03",
        "both": "2024-02-29T01:02:03",
        "day": "5000",
        "clock": "5000",
        "timestamp": "5000",
        "other": NO,
    },
    "protobuf": {"avro": "text", "native": "text", "other": NO},
    "auto": AUTO,
    "auto-http": AUTO,
    "several": {"versions": "0/8 1/8 0/8", "stranger": NO},
    "bytes": {"consumer": NO, "versions": "none 0/8"},
    "admin": {
        "none": "NotFoundException",
        "refused": "ConflictException",
        "latest": "1",
        "kind": "AVRO",
        "first": "true",
        "all": "2",
        "version": "0",
        "unknown version": "-1",
        "fits": "true",
        "strategy": "FULL",
        "deleted": "NotFoundException",
        "deleted version": "NotFoundException",
        "after": "3",
        "pair": "KEY_VALUE SEPARATED",
        "pair version": "0",
        "unset": "UNDEFINED",
        "validation": "false",
        "auto update": "true",
        "set": "BACKWARD_TRANSITIVE true false",
    },
}


def java(main: str, *arguments: str, given: str = "") -> list[str]:
    try:
        command = toolchain.DRIVERS[f"java-{toolchain.JAVA_LTS}"]()[:-1]
    except Missing as reason:
        unavailable("java", reason)
    done = subprocess.run(
        [*command, f"penstock.compat.pulsar.{main}", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout.splitlines()


def test_the_stories_of_the_java_client(penstock, name):
    addresses = penstock.addresses
    seen: dict[str, dict[str, str]] = defaultdict(dict)
    for line in java("Schemas", f"pulsar://{addresses['pulsar']}", penstock.http, name("schemas")):
        story, what, value = line.split("\t")
        seen[story][what] = value.strip()
    assert dict(seen) == TOLD


@only("go")
@pytest.mark.parametrize("kind", [2, 4], ids=["json", "avro"])
def test_the_go_client_registers_and_is_refused(client, topic, kind):
    def schema(*fields):
        return {"kind": kind, "data": json.dumps({"type": "record", "name": "R", "fields": fields})}

    age, email = {"name": "age", "type": "int"}, {"name": "email", "type": "string", "default": ""}
    schemas = schema(age), schema(age, email)
    first, second = (client.producer(topic, schema=each, batch=True) for each in schemas)  # it stamps batches alone
    for unfit in (schema(age | {"type": "string"}), {"kind": 8, "data": ""}):
        with pytest.raises(Told, match="IncompatibleSchema"):
            client.producer(topic, schema=unfit)
        with pytest.raises(Told, match="IncompatibleSchema"):
            client.subscribe(topic, "s", schema=unfit)
    consumer = client.subscribe(topic, "s", schema=schemas[1])
    first.send("a")
    second.send("b")
    assert [(message.body, int(message.told["schema"], 16)) for message in consumer.receive(2)] == [("a", 0), ("b", 1)]


def test_avros_own_library_agrees():
    pairs = [pair(number) for number in range(PAIRS)]
    lines = [f"{json.dumps(reader)}\t{json.dumps(writer)}\n" for reader, writer in pairs]
    told = java("Resolution", given="".join(lines))
    assert [(at, answer(*each)) for at, each in enumerate(pairs)] == list(enumerate(told))
    assert {"yes", "no", "bad"} == set(told)


def answer(reader: object, writer: object) -> str:
    try:
        nodes = [parsed(json.dumps(schema).encode()) for schema in (reader, writer)]
    except AvroError:
        return "bad"
    return "no" if can_read(*nodes) else "yes"
