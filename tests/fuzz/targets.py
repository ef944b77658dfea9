"""What is fed anything at all: each target takes bytes, and raises when a decoder does what it may not.

A decoder may refuse with the one error that it names; any other exception is a find, and so is an answer that does not
fit the input. The targets run under the driver here (`python -m tests.fuzz`), and under atheris where that is there.
"""

from collections.abc import Callable

import msgspec
from tests.fuzz import pulsar
from tests.fuzz.checks import check, piecemeal

from penstock.errors import StoreError
from penstock.wire.framing import FrameError
from penstock.wire.rocketmq import fastjson
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.batch import BatchError, run_of
from penstock.wire.rocketmq.frame import BINARY, JSON, Frame, decoded, frames_in, pack
from penstock.wire.rocketmq.pulls import front as pulls_front
from penstock.wire.rocketmq.pulls import front_in_python as pulls_in_python
from penstock.wire.rocketmq.record import Record, messages_in
from penstock.wire.rocketmq.requests import Pull, SendV2, fields_of, request_in
from penstock.wire.rocketmq.sends import ASKED, front, front_in_python
from penstock.wire.rocketmq.sql92 import SqlError, compiled
from penstock.wire.rocketmq.staged import Expected, StagedError, runs_in

Target = Callable[[bytes], None]

MODEL = Record(queue=1, length=0, topic=b"orders", born_host=bytes(8), store_host=bytes(8))
SHARED = b"CLUSTER\x01DefaultCluster\x02"
BODY_BYTES_MAX = 100
EXPECTED = Expected(b"orders", 8, bytes(8), bytes(8), SHARED, 1 << 20, 1 << 16)
SAMPLES = ({}, {"a": "1", "b": "text", "TAGS": "red"}, {"a": "-1.5e300", "b": "", "c": "true", "$_x": "9" * 400})


def frame(data: bytes) -> None:
    """Frames one behind the other; cut anywhere, they are the same."""
    try:
        frames, used = frames_in(memoryview(data), len(data), request_in)
    except FrameError:
        return
    check(used <= len(data), "more was used than there is")
    check(sum(8 + len(each.body) for each in frames) <= used, "bodies are longer than what was used")
    whole = [(each.code, each.opaque, bytes(each.body)) for each in frames]
    check(list(piecemeal(data, _read)) == whole, "cut into pieces it is something else")


def _read(view: memoryview, end: int) -> tuple[list[tuple[int, int, bytes]], int]:
    frames, used = frames_in(view, end, request_in)
    return [(each.code, each.opaque, bytes(each.body)) for each in frames], used


def sends(data: bytes) -> None:
    """What is taken as ordinary sends, whichever way, is what the same frames say."""
    view = memoryview(data)
    for taking in {front_in_python, front}:
        if (found := taking(view, len(data), SHARED, BODY_BYTES_MAX)) is None:
            continue
        topic, producer, asked, stored, used = found
        frames, behind = frames_in(view, used, request_in)
        check(behind == used and len(frames) == len(stored), "what was taken is not whole frames")
        for each, own, row in zip(frames, stored, ASKED.iter_unpack(asked), strict=True):
            typed = fields_of(SendV2, each)
            check((typed.topic, typed.producerGroup) == (topic, producer), "it is about something else")
            numbers = (typed.batch, typed.queueId, typed.flag, typed.sysFlag, typed.bornTimestamp)
            check(row[:7] == (each.opaque, each.oneway, *numbers), "what was asked is something else")
            check(view[row[7] : row[7] + row[8]] == each.body, "the body is another")
            check(0 < len(each.body) <= BODY_BYTES_MAX, "the body is empty or too large")
            begin = "" if typed.batch else typed.properties
            check(own.startswith(begin.encode()) and own.endswith(SHARED), "the properties are others")


def pulls(data: bytes) -> None:
    """What is taken as ordinary pulls, whichever way, is what the same frames say."""
    view = memoryview(data)
    for taking in {pulls_in_python, pulls_front}:
        found = taking(view, 0, len(data))
        frames, behind = frames_in(view, found[-1][0] if found else 0, request_in)
        check(not found or behind == found[-1][0], "what was taken is not whole frames")
        for each, asked in zip(frames, found, strict=True):
            own = fields_of(Pull, each)
            check(asked[1:3] == (each.opaque, each.version), "it is another request")
            about = (own.consumerGroup, own.topic, own.queueId, own.queueOffset, own.maxMsgNums, own.maxMsgBytes)
            check(asked[3:9] == about, "it is about something else")
            rest = (own.sysFlag, own.commitOffset, own.suspendTimeoutMillis, own.subVersion)
            check(asked[9:] == rest, "what was asked is something else")


def json_header(data: bytes) -> None:
    _header(data, JSON)


def binary_header(data: bytes) -> None:
    _header(data, BINARY)


def _header(data: bytes, form: int) -> None:
    """What was read can be written, and read again."""
    try:
        found = decoded(memoryview(data), memoryview(b""), form)
        request_in(memoryview(data), memoryview(b""), form)
    except FrameError:
        return
    check(all(isinstance(text, str) for pair in found.ext.items() for text in pair), "an ext field is no text")
    if _fits(found):
        packed = pack(
            found.code, found.opaque, found.flag, found.version, form, found.remark, found.ext, b"", found.language
        )
        (again,), _ = frames_in(memoryview(packed), len(packed))
        check(_facts(again) == _facts(found), "what was written is not what was read")


def _fits(found: Frame) -> bool:
    """Whether the binary form has room for its numbers and texts; ours always do."""
    small = 0 <= found.code < 1 << 16 and 0 <= found.version < 1 << 16
    short = all(len(key.encode(errors="replace")) < 1 << 15 for key in found.ext)
    return found.form == JSON or (small and short)


def _facts(found: Frame) -> tuple[object, ...]:
    return found.code, found.opaque, found.flag, found.version, found.remark, found.ext


def properties(data: bytes) -> None:
    text = data.decode(errors="ignore")
    found = props.parse(text)
    clean = props.build(found)
    check(props.parse(clean) == found, "what was built is not what was parsed")
    for name, value in found.items():
        check(props.find(clean, name) == value, "one that is there is not found")
    props.find(text, props.TAGS)


def batch(data: bytes) -> None:
    """What is stored of a batch can be read, and is what came."""
    try:
        run = run_of(MODEL, memoryview(data), SHARED)
    except BatchError:
        return
    if not run.count:
        return
    buffer = memoryview(bytearray(run.length))
    run.write_into(buffer, 0, 1, 0, 0)
    messages = messages_in(buffer)
    check(len(messages) == run.count, "messages were lost")
    check(sum(len(message.body) for message in messages) <= len(data), "bodies are longer than the batch")
    check(all(message.body for message in messages), "a body is empty")
    check(all(message.sound for message in messages), "a checksum is wrong")
    check([int(length) for length in run.spans().lengths] == [message.length for message in messages], "spans")


def record(data: bytes) -> None:
    try:
        messages = messages_in(memoryview(data))
    except StoreError:
        return
    check(sum(message.length for message in messages) == len(data), "records are not as long as they say")


def sql(data: bytes) -> None:
    text = data.decode(errors="ignore")
    try:
        selects = compiled(text)
    except SqlError:
        return
    for sample in SAMPLES:
        check(selects(sample) in (True, False), "neither yes nor no")


def fastjson_text(data: bytes) -> None:
    """Keys of any kind become texts: what was read is plain."""
    try:
        found = fastjson.loads(data)
    except fastjson.FastjsonError:
        return
    plain = msgspec.json.encode(found)
    check(fastjson.loads(plain) == found, "written as plain JSON it is something else")


def staged(data: bytes) -> None:
    """Of a request that stages messages: what is published of it can be read, and is all of it."""
    try:
        runs = runs_in(memoryview(data), EXPECTED)
    except StagedError:
        return
    for run in runs:
        messages = messages_in(run.records())
        check(len(messages) == run.count, "messages were lost")
        check([int(length) for length in run.spans().lengths] == [message.length for message in messages], "spans")
    bodies = sum(len(run.bodies) + len(run.properties) for run in runs)
    check(bodies <= len(data), "messages are longer than the request")


TARGETS: dict[str, Target] = {
    "frame": frame,
    "sends": sends,
    "pulls": pulls,
    "json_header": json_header,
    "binary_header": binary_header,
    "properties": properties,
    "batch": batch,
    "record": record,
    "sql": sql,
    "fastjson": fastjson_text,
    "staged": staged,
    **pulsar.TARGETS,
}
