"""A request that has arrived whole, and the reply to it. No sockets, no h11."""

import msgspec

JSON = "application/json"


class Request(msgspec.Struct):
    method: str
    path: str  # decoded, without the query
    query: str = ""
    headers: list[tuple[bytes, bytes]] = []
    body: bytes = b""
    raw_path: str = ""  # as it came: a slash that belongs to a name is still %2F in it
    local_host: str = ""  # the address that the client has connected to

    def header(self, name: bytes) -> str:
        """A header by its name in lower case; empty when it is not there."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")


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
