"""An answer with messages is put together by one format: a client reads in it what any other answer would say."""

import pytest

from penstock.gateway.rocketmq.consume import found_head
from penstock.wire.rocketmq.codes import Flag
from penstock.wire.rocketmq.frame import JSON, frames_in


@pytest.mark.parametrize("opaque", [0, -5, 2**31 - 1])
def test_it_reads_as_any_other_answer(opaque):
    packed = found_head(opaque, 132, 100, 2**36, 5) + b"hello"
    (answer,), used = frames_in(memoryview(packed), len(packed))
    assert (used, bytes(answer.body), answer.form) == (len(packed), b"hello", JSON)
    assert (answer.code, answer.opaque, answer.flag, answer.remark) == (0, opaque, Flag.RESPONSE, "FOUND")
    offsets = {"minOffset": "100", "maxOffset": str(2**36), "nextBeginOffset": "132"}
    assert answer.ext == {**offsets, "suggestWhichBrokerId": "0"}
