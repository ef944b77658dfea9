"""A request, taken apart: the parts of its path by name, its query, its body. All of it comes from the network, and is
checked where it is taken out.
"""

import re
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec

from penstock.gateway.http.messages import Request
from penstock.gateway.pulsar.admin.answers import Declined

QUERY_FIELDS_MAX = 100
NUMBER_MAX = (1 << 63) - 1
_NUMBER = re.compile(r"[0-9]{1,19}")
_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]{2,45})\]|(?P<host>[-A-Za-z0-9._]{1,253}))(?::[0-9]{1,5})?")

T = TypeVar("T")

WORDS = msgspec.json.Decoder(dict[str, str])  # bodies that are properties


class Asked(msgspec.Struct):
    """`parts` are those of the path, decoded, by the names in the route's pattern."""

    parts: dict[str, str]
    query: dict[str, str]
    request: Request

    def __getitem__(self, part: str) -> str:
        return self.parts[part]

    def flag(self, name: str, default: bool = False) -> bool:
        return self.query[name].lower() == "true" if name in self.query else default

    def number(self, part: str, at_least: int = 0) -> int:
        """A part of the path that is a number."""
        return whole(self.parts[part], part, at_least)

    def body(self, decoder: msgspec.json.Decoder[T], default: T) -> T:
        """What the body says in JSON; `default` when there is none."""
        if self.request.body.strip() in (b"", b"null"):
            return default
        try:
            return decoder.decode(self.request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Declined(400, f"the body is not what is expected here: {error}") from None

    @property
    def host(self) -> str:
        """The name by which the client reaches this broker, as far as it says so."""
        found = _HOST.fullmatch(self.request.header(b"host"))
        return (found["v6"] or found["host"]) if found else self.request.local_host

    @property
    def is_foreign(self) -> bool:
        """Whether a web page of another site has a browser ask this: browsers say where a request comes from."""
        origin = self.request.header(b"origin")
        return bool(origin) and origin.rpartition("://")[2] != self.request.header(b"host")

    @property
    def resource(self) -> str:
        """What the authorizer is asked about: the narrowest thing that the path names."""
        names = [self.parts[part] for part in ("tenant", "namespace", "topic") if part in self.parts]
        return ("persistent://" if len(names) == 3 else "") + "/".join(names) or "broker"


def query_of(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        raise Declined(400, f"a query has at most {QUERY_FIELDS_MAX} fields") from None


def whole(text: str, what: str, at_least: int = 0) -> int:
    if not _NUMBER.fullmatch(text) or not at_least <= int(text) <= NUMBER_MAX:
        raise Declined(412, f"{text[:50]!r} is not a number of {at_least} or more, as {what} has to be")
    return int(text)
