"""RocketMQ's remoting protocol: frames, headers, message records, bodies. Shared by the broker and the client.

Big-endian throughout. Nothing here reads a socket or a clock.
"""
