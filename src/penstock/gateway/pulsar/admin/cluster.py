"""The cluster and its broker: one of each."""

from collections.abc import Callable

from penstock import __version__
from penstock.gateway.http.messages import Reply, in_json, refusal
from penstock.gateway.pulsar.admin.answers import Declined, in_words
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.lookup import Home
from penstock.model import Action

CLUSTER = "standalone"  # what clients expect a broker to be called that is a cluster by itself


class Cluster:
    """`obstacle` says why the broker is not ready, or nothing when it is."""

    def __init__(self, home: Home, obstacle: Callable[[], str]) -> None:
        self._home, self._obstacle = home, obstacle

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/admin/v2/clusters", self.clusters, Action.MONITOR),
            Route("GET", "/admin/v2/clusters/{cluster}", self.cluster, Action.MONITOR),
            Route("PUT", "/admin/v2/clusters/{cluster}", self.create, Action.ADMIN),
            Route("GET", "/admin/v2/brokers", self.brokers, Action.MONITOR),
            Route("GET", "/admin/v2/brokers/health", self.health, Action.MONITOR),
            Route("GET", "/admin/v2/brokers/ready", self.health, Action.MONITOR),
            Route("GET", "/admin/v2/brokers/version", self.version, Action.MONITOR),
            Route("GET", "/admin/v2/brokers/leaderBroker", self.leader, Action.MONITOR),
            Route("GET", "/admin/v2/brokers/{cluster}", self.brokers, Action.MONITOR),
            Route("GET", "/status.html", self.status, Action.MONITOR),
        ]

    async def clusters(self, asked: Asked) -> Reply:
        return in_json([CLUSTER])

    async def cluster(self, asked: Asked) -> Reply:
        _check(asked)
        http = f"http://{self._home.http_address_for(asked.host)}"
        return in_json({"serviceUrl": http, "brokerServiceUrl": self._home.url_for(asked.host)})

    async def create(self, asked: Asked) -> Reply:
        if asked["cluster"] == CLUSTER:
            raise Declined(409, "Cluster already exists")
        raise Declined(405, f"this broker is a cluster by itself, {CLUSTER!r}: there are no others")

    async def brokers(self, asked: Asked) -> Reply:
        if "cluster" in asked.parts:
            _check(asked)
        return in_json([self._home.http_address_for(asked.host)])

    async def leader(self, asked: Asked) -> Reply:
        address = self._home.http_address_for(asked.host)
        return in_json({"brokerId": address, "serviceUrl": f"http://{address}"})

    async def health(self, asked: Asked) -> Reply:
        obstacle = self._obstacle()
        return refusal(503, obstacle) if obstacle else in_words("ok")

    async def version(self, asked: Asked) -> Reply:
        return in_words(__version__)

    async def status(self, asked: Asked) -> Reply:
        obstacle = self._obstacle()
        return refusal(503, obstacle) if obstacle else in_words("OK")


def _check(asked: Asked) -> None:
    if asked["cluster"] != CLUSTER:
        raise Declined(404, f"there is no such cluster: there is one, {CLUSTER!r}")
