"""Ordinary pulls of one read, all at once: the other half of the hot path, beside `sends`.

A pull is ordinary when its consumer asks for what its group subscribes to, as push consumers do: code 11 in JSON, with
no expression of its own, plain ASCII. Whether it may be served without another look is for the gateway to say: what is
not taken comes as frames (`requests`), and nothing is lost by that.

`_pulls.c` is the same, compiled.
"""

from penstock.compiled import compiled
from penstock.wire.rocketmq.codes import PullFlag, RequestCode
from penstock.wire.rocketmq.frame import JSON, Frame
from penstock.wire.rocketmq.record import TOPIC_BYTES_MAX
from penstock.wire.rocketmq.requests import Pull
from penstock.wire.rocketmq.sends import frame_at

GROUP_BYTES_MAX = 255

_CODE, _HEADER_AT = b'{"code":11,', 8
_ORDINARY_BITS = PullFlag.COMMIT | PullFlag.SUSPEND

# Where its frame ends, opaque, the client's version, consumer group, topic, queue, offset, messages and bytes at most,
# sysFlag, offset to be committed, how long it waits, version of the subscription.
Asked = tuple[int, int, int, str, str, int, int, int, int, int, int, int, int]


def front_in_python(view: memoryview, at: int, end: int) -> list[Asked]:
    """The ordinary pulls from `at` on, one behind the other, up to the first that is none."""
    found: list[Asked] = []
    while bytes(view[at + _HEADER_AT : at + _HEADER_AT + len(_CODE)]) == _CODE:
        frame = frame_at(view, at, end)
        own = None if frame is None else _ordinary(frame)
        if frame is None or own is None:
            break
        at += 4 + int.from_bytes(view[at : at + 4], "big")
        found.append((
            at, frame.opaque, frame.version, own.consumerGroup, own.topic, own.queueId, own.queueOffset, own.maxMsgNums,
            own.maxMsgBytes, own.sysFlag, own.commitOffset, own.suspendTimeoutMillis, own.subVersion,
        ))  # fmt: skip
    return found


def _ordinary(frame: Frame) -> Pull | None:
    """The fields of a pull, if it is an ordinary one."""
    own = frame.typed
    if frame.form != JSON or not isinstance(own, Pull):
        return None
    odd = (
        frame.flag
        or frame.code != RequestCode.PULL_MESSAGE
        or len(frame.body)
        or own.sysFlag & ~_ORDINARY_BITS
        or own.asStored
        or not 0 < len(own.topic) <= TOPIC_BYTES_MAX
        or not 0 < len(own.consumerGroup) <= GROUP_BYTES_MAX
        or not (own.topic + own.consumerGroup).isascii()
    )
    return None if odd else own


front = compiled("penstock.wire.rocketmq._pulls", front_in_python)
