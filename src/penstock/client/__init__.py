"""A client for RocketMQ's remoting protocol: asyncio, typed, the same on Penstock and on a RocketMQ cluster."""
