"""A request that has arrived whole, and the reply to it. No sockets, no h11."""

import msgspec

JSON = "application/json"


class Request(msgspec.Struct):
    method: str
    path: str  # decoded, without the query
    query: str = ""
    headers: list[tuple[bytes, bytes]] = []
    body: bytes = b""


class Reply(msgspec.Struct):
    status: int
    body: bytes
    content_type: str = JSON
    headers: list[tuple[str, str]] = []


def in_json(value: object, status: int = 200) -> Reply:
    return Reply(status, msgspec.json.encode(value) + b"\n")


def refusal(status: int, reason: str) -> Reply:
    """Every answer that is not a success has this body, so that a client needs one way to read them."""
    return in_json({"reason": reason}, status)
