"""Which path does what. A handler gets a request and gives a reply; before it runs, the authorizer is asked.

Adding a route adds a line to the table in `Router` and a handler. Errors of the core become status codes here and
nowhere else. What a protocol serves by HTTP is mounted: by the first part of the path, with a table, codes and
questions to the authorizer of its own.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from penstock import logs
from penstock.core.authorizer import Authorizer
from penstock.core.metrics import Metric
from penstock.errors import NotAuthorized, PenstockError, StoreReadOnly
from penstock.gateway.http import exposition
from penstock.gateway.http.messages import Reply, Request, in_json, refusal
from penstock.model import Action

log = logs.get(__name__)

ANONYMOUS = "anonymous"
RESOURCE = "broker"
STATUS: dict[type[PenstockError], int] = {NotAuthorized: 403, StoreReadOnly: 503}

Handler = Callable[[Request], Awaitable[Reply]]


class Route(NamedTuple):
    method: str
    path: str
    handler: Handler
    needs: Action


class Router:
    """Answers requests. `obstacle` says why the broker is not ready, or nothing when it is. `mounts` serve all paths
    that begin with their name. Before anything is answered, `settle` is called: what is asked for is up to date.
    """

    def __init__(
        self,
        authorizer: Authorizer,
        metrics: Callable[[], Iterable[Metric]],
        obstacle: Callable[[], str],
        settle: Callable[[], None],
        mounts: Mapping[str, Handler] | None = None,
    ) -> None:
        self._authorizer, self._metrics, self._obstacle, self._settle = authorizer, metrics, obstacle, settle
        self._mounts = mounts or {}
        self._routes = by_path(
            Route("GET", "/healthz", self.healthz, needs=Action.MONITOR),
            Route("GET", "/readyz", self.readyz, needs=Action.MONITOR),
            Route("GET", "/metrics", self.metrics, needs=Action.MONITOR),
        )

    async def answer(self, request: Request) -> Reply:
        """Always a reply: whatever goes wrong in a handler is logged here and told as a status."""
        try:
            self._settle()
            return await self._dispatched(request)
        except PenstockError as error:
            return refusal(_status_of(error), str(error))
        except Exception:
            log.exception("a request failed", method=request.method, path=request.path)
            return refusal(500, "the broker failed to answer this; its log says why")

    async def _dispatched(self, request: Request) -> Reply:
        methods = self._routes.get(request.path)
        if methods is None:
            mount = self._mounts.get(request.path.strip("/").partition("/")[0])
            if mount is not None:
                return await mount(request)
            return refusal(404, f"there is nothing at {request.path[:200]}")
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            return _not_allowed(request.method, methods)
        self._authorizer.check(ANONYMOUS, route.needs, RESOURCE)
        return await route.handler(request)

    async def healthz(self, request: Request) -> Reply:
        """The process is alive and its loop turns: that this is answered says so."""
        return in_json({"status": "alive"})

    async def readyz(self, request: Request) -> Reply:
        """Whether clients should be sent here."""
        obstacle = self._obstacle()
        return refusal(503, obstacle) if obstacle else in_json({"status": "ready"})

    async def metrics(self, request: Request) -> Reply:
        return Reply(200, exposition.rendered(self._metrics()), exposition.CONTENT_TYPE)


def by_path(*routes: Route) -> dict[str, dict[str, Route]]:
    table: dict[str, dict[str, Route]] = {}
    for route in routes:
        table.setdefault(route.path, {})[route.method] = route
    return table


def _status_of(error: PenstockError) -> int:
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def _not_allowed(method: str, methods: dict[str, Route]) -> Reply:
    allowed = sorted(methods) + (["HEAD"] if "GET" in methods else [])
    reply = refusal(405, f"{method[:50]} is not allowed here, but {', '.join(allowed)}")
    reply.headers.append(("Allow", ", ".join(allowed)))
    return reply
