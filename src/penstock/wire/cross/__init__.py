"""One protocol's messages in the other's encoding. Pure functions; the rules are in docs/cross-protocol.md.

    names.py        the properties that say what the other side has no word for
    to_pulsar.py    a RocketMQ record as a Pulsar entry
    to_rocketmq.py  a Pulsar entry as RocketMQ records
    chunks.py       messages that Pulsar's producers have cut into parts

What is in the log tells by itself what it is (`is_record`): a record begins with its own length and a magic number, and
no Pulsar entry that was ever taken does, since its metadata would have to be longer than the whole.
"""

import struct

from penstock.wire.rocketmq.record import MAGIC

_HEAD = struct.Struct(">II")


def is_record(payload: memoryview) -> bool:
    """Whether a payload of the log is a RocketMQ record; else it is a Pulsar entry."""
    return len(payload) >= _HEAD.size and _HEAD.unpack_from(payload) == (len(payload), MAGIC)
