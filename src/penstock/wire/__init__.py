"""Bytes to commands and back, per protocol. No sockets, no clock, no asyncio."""
