"""Subscriptions: named cursors on a queue, whose consumers are pushed what they have asked for.

The parts, from the inside out. `cursor` knows what is acknowledged. `seats` keeps a consumer's account: permits, what
it has in hand, whether it is blocked. `single`, `shared` and `keyed` decide who gets which entries; they are functions
of what they are handed. `subscription` puts these together and does no I/O: it says which rows it wants (`wanted`) and
deals out what was read (`deal`). `feeder` reads for it.

Nothing here knows a protocol. A message's key, its time and its chunks are told by whoever stored it (`Offer`).
"""
