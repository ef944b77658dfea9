"""Which method and path does what: a table of routes, and the way through it.

A pattern is a path with names in braces, each of which stands for one part. Parts are split before they are decoded, so
that a slash in a name stays in the name. Where several patterns fit, the one with words in front goes before the one
with names there. Before a handler runs, the authorizer is asked for the action that its route names.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple
from urllib.parse import unquote

from penstock.core.authorizer import Authorizer
from penstock.errors import PenstockError
from penstock.gateway.http.messages import Reply, Request, refusal
from penstock.gateway.pulsar.admin.answers import Declined, status_of
from penstock.gateway.pulsar.admin.asked import Asked, query_of
from penstock.gateway.pulsar.admin.unserved import why_not
from penstock.model import Action

ANONYMOUS = "anonymous"
PARTS_MAX = 16

Handler = Callable[[Asked], Awaitable[Reply]]
Parts = tuple[str, ...]


class Route(NamedTuple):
    method: str
    pattern: str
    handler: Handler
    needs: Action


class Table:
    def __init__(self, routes: Iterable[Route], authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._by_length: dict[int, list[tuple[Parts, Route]]] = {}
        for route in routes:
            parts = tuple(route.pattern.strip("/").split("/"))
            self._by_length.setdefault(len(parts), []).append((parts, route))
        for several in self._by_length.values():
            several.sort(key=lambda each: [_is_name(part) for part in each[0]])

    async def answer(self, request: Request) -> Reply:
        try:
            return await self._answer(request)
        except PenstockError as error:
            return refusal(status_of(error), str(error))

    async def _answer(self, request: Request) -> Reply:
        given = parts_of(request.raw_path)
        fitting = [(parts, route) for parts, route in self._by_length.get(len(given), ()) if _fits(parts, given)]
        method = "GET" if request.method == "HEAD" else request.method
        for parts, route in fitting:
            if route.method == method:
                named = {part[1:-1]: text for part, text in zip(parts, given, strict=True) if _is_name(part)}
                asked = Asked(named, query_of(request.query), request)
                if asked.is_foreign and method != "GET":
                    raise Declined(403, "a web page of another site may change nothing here")
                self._authorizer.check(ANONYMOUS, route.needs, asked.resource)
                return await route.handler(asked)
        return why_not(given, request.method, sorted({route.method for _, route in fitting}))


def parts_of(raw_path: str) -> Parts:
    """The parts of a path, decoded. One slash at the end does not count."""
    raw = raw_path.removeprefix("/").removesuffix("/").split("/")
    if len(raw) > PARTS_MAX:
        raise Declined(404, f"a path has at most {PARTS_MAX} parts here")
    try:
        return tuple(unquote(part, errors="strict") for part in raw)
    except UnicodeDecodeError:
        raise Declined(412, "a part of the path is not UTF-8") from None


def _is_name(part: str) -> bool:
    return part.startswith("{")


def _fits(parts: Parts, given: Parts) -> bool:
    return all(mine == theirs or (_is_name(mine) and theirs != "") for mine, theirs in zip(parts, given, strict=True))
