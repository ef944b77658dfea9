"""Who answers a pull: the master of a queue, the slave that it names when it is busy, or whoever can be reached.

A broker says with each answer whom to ask the next time (`broker_number`). A slave may be behind its master: what it
does not have yet it answers with nothing, at once, so `spins` tells when to wait a little; one that refuses (it may not
have heard of a topic or a group yet) is passed over. That an offset is outside of its queue (21) counts only from the
master: a slave that lacks something must not make anybody go on elsewhere.
"""

from collections.abc import Callable

from penstock import logs
from penstock.client.cluster import Cluster
from penstock.client.errors import NoBroker, Unreachable
from penstock.client.link import Ext
from penstock.client.routes import MASTER, MessageQueue
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame

log = logs.get(__name__)

SPIN_WAIT_MS = 100
_SPIN_MS = 5
_ANSWERS = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)

ExtFor = Callable[[bool], Ext]  # the fields of a pull; told whether the master gets it


async def pull(
    cluster: Cluster, queue: MessageQueue, number: int, ext_for: ExtFor, timeout_ms: int
) -> tuple[str, Frame]:
    """Where the answer came from, and the answer. Unreachable when nobody can be asked."""
    *others, last = cluster.reachable(cluster.readers(queue.broker, number))
    for address in others:
        try:
            answer = await _asked(cluster, queue, address, ext_for, timeout_ms)
        except Unreachable as error:
            log.debug("a pull goes elsewhere", queue=str(queue), error=str(error))
            continue
        if answer.code in _ANSWERS or cluster.is_master(queue.broker, address):
            return address, answer
        log.debug("a pull goes elsewhere", queue=str(queue), slave=address, code=answer.code, why=answer.remark)
    return last, await _asked(cluster, queue, last, ext_for, timeout_ms)


async def _asked(cluster: Cluster, queue: MessageQueue, address: str, ext_for: ExtFor, timeout_ms: int) -> Frame:
    is_master = cluster.is_master(queue.broker, address)
    answer = await cluster.ask(address, RequestCode.PULL_MESSAGE, ext_for(is_master), b"", timeout_ms)
    if answer.code == ResponseCode.PULL_OFFSET_MOVED and not is_master:
        raise NoBroker(queue.broker, f"slave {address} does not have the offset asked for, its master is needed")
    return answer


def broker_number(answer: Frame) -> int:
    """Whom to ask the next time: the master, or the slave with that number."""
    return int(answer.ext.get("suggestWhichBrokerId", MASTER))


def spins(asked_offset: int, next_offset: int, took_ms: int) -> bool:
    """Of an answer that has brought nothing: whether the same question at once would only bring the same again. The
    broker does not hold pulls, or is a slave that is behind.
    """
    return next_offset == asked_offset and took_ms < _SPIN_MS
