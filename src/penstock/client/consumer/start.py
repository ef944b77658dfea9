"""Where consumption of a queue begins when nobody has an offset for it, as RocketMQ has it.

start    a queue                    a queue of the retry topic
FIRST    where it begins            the same
LAST     where it ends              0: what waits there is for this group
since    at that time               where it ends
"""

from penstock.client import positions
from penstock.client.cluster import Cluster
from penstock.client.consumer.settings import RETRY_PREFIX
from penstock.client.positions import FIRST, LAST, StartAt
from penstock.client.routes import MessageQueue


async def start_offset(cluster: Cluster, queue: MessageQueue, start: StartAt) -> int:
    """Ask the broker for it; ClientError when it cannot be told now."""
    retry = queue.topic.startswith(RETRY_PREFIX)
    if start == FIRST:
        return await positions.min_offset(cluster, queue)
    if start == LAST and retry:
        return 0
    if start == LAST or retry:
        return await positions.max_offset(cluster, queue)
    return await positions.offset_at(cluster, queue, start.time_ms)
