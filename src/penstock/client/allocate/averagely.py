"""Averagely, the default: everyone gets one contiguous run, and those who come first get the longer ones.

12 queues, 5 instances: 12 = 5 * 2 + 2, so the first two get 3 and the others 2:

    a  0 1 2      b  3 4 5      c  6 7      d  8 9      e  10 11

7 queues, 2 instances: 4 and 3. 3 queues, 5 instances: one each for the first three.
"""

from collections.abc import Sequence

from penstock.client.allocate.strategy import place
from penstock.client.routes import MessageQueue


class Averagely:
    name = "AVG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        at = place(group, client_id, queues, client_ids)
        if at < 0:
            return []
        each, longer = divmod(len(queues), len(client_ids))
        first = at * each + min(at, longer)
        return list(queues[first : first + each + (at < longer)])
