"""Which queues of a topic an instance reads: the six strategies of RocketMQ, one file each.

Every instance of a group works its own share out by itself, from the same two lists in the same order (`in_order`), so
all of them have to use one strategy, and the one that Java instances of the group use. Allocation is per topic and
pure: nothing is remembered from one to the next.
"""

from penstock.client.allocate.averagely import Averagely
from penstock.client.allocate.averagely_by_circle import AveragelyByCircle
from penstock.client.allocate.by_config import ByConfig
from penstock.client.allocate.by_machine_room import ByMachineRoom
from penstock.client.allocate.consistent_hash import ConsistentHash
from penstock.client.allocate.machine_room_nearby import MachineRoomNearby
from penstock.client.allocate.strategy import Strategy

__all__ = [
    "Averagely",
    "AveragelyByCircle",
    "ByConfig",
    "ByMachineRoom",
    "ConsistentHash",
    "MachineRoomNearby",
    "Strategy",
]
