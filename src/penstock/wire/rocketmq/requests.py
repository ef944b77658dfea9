"""Requests as a broker reads them. Those of the hot path, sends and pulls, are decoded in one go into typed fields (a
union tagged by the request's code: 1 us, where a dict of strings and a conversion take 3); all others, and whatever is
odd about a hot one, come as any frame does, with a dict.

`fields_of` gives a request's fields in either case.
"""

from typing import Annotated, ClassVar, TypeVar

import msgspec

from penstock.wire.rocketmq.frame import JSON, Frame, decoded

DEFAULT_TOPIC = "TBW102"  # the name that clients ask for when a topic does not exist: "may I create it?"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]  # as records carry them: more would not fit
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Send(msgspec.Struct, gc=False):
    """The ext fields of a send, by their long names (code 10)."""

    topic: str
    producerGroup: str = ""  # noqa: N815  # the wire's names
    defaultTopic: str = DEFAULT_TOPIC  # noqa: N815
    defaultTopicQueueNums: int = 4  # noqa: N815
    queueId: int = 0  # noqa: N815
    sysFlag: Int32 = 0  # noqa: N815
    bornTimestamp: Int64 = 0  # noqa: N815
    flag: Int32 = 0
    properties: str = ""
    reconsumeTimes: Int32 = 0  # noqa: N815
    maxReconsumeTimes: int | None = None  # noqa: N815
    batch: bool = False


class SendV2(msgspec.Struct, gc=False, rename={
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
    "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j",
    "maxReconsumeTimes": "l", "batch": "m",
}):  # fmt: skip
    """The same by their one-letter names (codes 310 and 320). Written out: a rename does not reach inherited fields,
    and turning the names of every send into the long ones would cost as much as decoding them.
    """

    topic: str
    producerGroup: str = ""  # noqa: N815
    defaultTopic: str = DEFAULT_TOPIC  # noqa: N815
    defaultTopicQueueNums: int = 4  # noqa: N815
    queueId: int = 0  # noqa: N815
    sysFlag: Int32 = 0  # noqa: N815
    bornTimestamp: Int64 = 0  # noqa: N815
    flag: Int32 = 0
    properties: str = ""
    reconsumeTimes: Int32 = 0  # noqa: N815
    maxReconsumeTimes: int | None = None  # noqa: N815
    batch: bool = False


class Pull(msgspec.Struct, gc=False):
    """The ext fields of a pull (codes 11 and 361)."""

    consumerGroup: str  # noqa: N815
    topic: str
    queueId: int  # noqa: N815
    queueOffset: Int64  # noqa: N815
    maxMsgNums: int = 32  # noqa: N815
    sysFlag: Int32 = 0  # noqa: N815
    commitOffset: Int64 = 0  # noqa: N815
    suspendTimeoutMillis: int = 0  # noqa: N815
    subscription: str = ""
    subVersion: int = 0  # noqa: N815
    expressionType: str = "TAG"  # noqa: N815
    maxMsgBytes: int = 0  # noqa: N815
    asStored: bool = False  # noqa: N815  # Penstock's own: also what is not due yet, and maxMsgNums counts offsets


class _HotFrame(msgspec.Struct, gc=False, kw_only=True, tag_field="code"):
    opaque: int = 0
    flag: int = 0
    version: int = 0


class _SendFrame(_HotFrame, tag=10):
    code: ClassVar[int] = 10
    extFields: Send  # noqa: N815


class _SendV2Frame(_HotFrame, tag=310):
    code: ClassVar[int] = 310
    extFields: SendV2  # noqa: N815


class _BatchFrame(_HotFrame, tag=320):
    code: ClassVar[int] = 320
    extFields: SendV2  # noqa: N815


class _PullFrame(_HotFrame, tag=11):
    code: ClassVar[int] = 11
    extFields: Pull  # noqa: N815


class _LitePullFrame(_HotFrame, tag=361):
    code: ClassVar[int] = 361
    extFields: Pull  # noqa: N815


_hot = msgspec.json.Decoder(_SendFrame | _SendV2Frame | _BatchFrame | _PullFrame | _LitePullFrame, strict=False)
_NO_EXT: dict[str, str] = {}  # of a frame with typed fields: nobody may write into it

T = TypeVar("T", bound=msgspec.Struct)


def request_in(header: memoryview, body: memoryview, form: int) -> Frame:
    """A frame that came to a broker."""
    if form == JSON:
        try:
            hot = _hot.decode(header)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # another request, or an odd one
            pass
        else:
            return Frame(hot.code, hot.opaque, hot.flag, hot.version, "JAVA", "", _NO_EXT, body, JSON, hot.extFields)
    return decoded(header, body, form)


def fields_of(kind: type[T], frame: Frame) -> T:
    """The ext fields of a request, typed; msgspec.ValidationError when they cannot be."""
    typed = frame.typed
    return typed if type(typed) is kind else msgspec.convert(frame.ext, kind, strict=False)


def topic_of(frame: Frame, name: str) -> str:
    """What a request is about: the ext field with that name, or the topic of a send or pull."""
    typed = frame.typed
    return frame.ext.get(name, "") if typed is None else typed.topic  # type: ignore[attr-defined]
