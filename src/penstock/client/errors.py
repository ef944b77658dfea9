"""What can go wrong between a client and a cluster. Each error says what, where, and what to do.

A broker's refusal carries its code, its remark and its address; the common codes have classes of their own.
"""

from penstock.errors import PenstockError
from penstock.wire.rocketmq.codes import ResponseCode
from penstock.wire.rocketmq.frame import Frame


class ClientError(PenstockError):
    """The base of all."""


class Closed(ClientError):
    """The client was closed, or never started."""


class Unreachable(ClientError):
    """Nobody answers at an address."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"{address} cannot be reached: {why}")
        self.address = address


class NoBroker(Unreachable):
    """The name servers know no broker of that name (any more), or not the one of its brokers that is needed."""

    def __init__(self, broker: str, why: str = "no name server knows this broker (any more)") -> None:
        super().__init__(broker, why)


class Lost(Unreachable):
    """The connection ended before the answer came: whether it was done is not known."""


class TimedOut(ClientError):
    """No answer in time: whether it was done is not known."""

    def __init__(self, address: str, timeout_ms: int) -> None:
        super().__init__(f"{address} did not answer within {timeout_ms} ms")
        self.address = address


class NoReply(ClientError):
    """A request was sent, and nobody replied in time."""

    def __init__(self, topic: str, timeout_ms: int) -> None:
        super().__init__(
            f"no reply to a request on topic {topic!r} within {timeout_ms} ms: is a consumer of it running, "
            "and does it reply?"
        )
        self.topic = topic


class Refused(ClientError):
    """A broker or name server said no."""

    def __init__(self, code: int, remark: str, address: str) -> None:
        super().__init__(f"{address} refused with code {code}: {remark or 'no reason given'}")
        self.code, self.remark, self.address = code, remark, address


class TopicNotFound(Refused):
    """Code 17."""


class NoRoute(TopicNotFound):
    """No broker has the topic: the name servers say so, or know none of its brokers that could take it."""

    def __init__(self, topic: str, address: str = "the name servers") -> None:
        told = (
            f"no broker has topic {topic!r}: create it, or let the brokers create topics by themselves; "
            "and check that the name servers are those of the cluster you mean"
        )
        super().__init__(ResponseCode.TOPIC_NOT_EXIST, told, address)
        self.args = (told,)
        self.topic = topic


class NotAuthorized(Refused):
    """Code 16."""


class MessageTooLarge(Refused, ValueError):
    """Code 13: the message is not acceptable, nearly always because of its size. A client refuses some by itself."""


class BrokerBusy(Refused):
    """Codes 2 and 14: later, or elsewhere."""


class NotFound(Refused):
    """Code 22: what was asked for is not there."""


class GroupNotFound(Refused):
    """Codes 24 and 26: the group, or its subscription, is not known there."""


class SubscriptionNotLatest(Refused):
    """Code 25: the broker has not heard of this version of the subscription yet."""


class BadExpression(Refused):
    """Code 23: the filter cannot be read."""


_KINDS: dict[int, type[Refused]] = {
    ResponseCode.TOPIC_NOT_EXIST: TopicNotFound,
    ResponseCode.NO_PERMISSION: NotAuthorized,
    ResponseCode.MESSAGE_ILLEGAL: MessageTooLarge,
    ResponseCode.SYSTEM_BUSY: BrokerBusy,
    ResponseCode.SERVICE_NOT_AVAILABLE: BrokerBusy,
    ResponseCode.QUERY_NOT_FOUND: NotFound,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: BadExpression,
    ResponseCode.SUBSCRIPTION_NOT_EXIST: GroupNotFound,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GroupNotFound,
    ResponseCode.SUBSCRIPTION_NOT_LATEST: SubscriptionNotLatest,
}


def refusal(answer: Frame, address: str) -> Refused:
    """The error that an answer stands for."""
    return _KINDS.get(answer.code, Refused)(answer.code, answer.remark, address)
