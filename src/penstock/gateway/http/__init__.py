"""The HTTP side: health, readiness and metrics, and what other gateways mount on it.

messages.py    a request and a reply, as values
routes.py      which path does what, and which action that needs; errors to status codes
exposition.py  metrics in the Prometheus text format
connection.py  one socket: h11, bounds and timeouts
"""

from penstock.config import HttpConfig
from penstock.gateway.guests import Gateway, Guests
from penstock.gateway.http.connection import HttpConnection
from penstock.gateway.http.routes import Router


def http_gateway(router: Router, config: HttpConfig) -> Gateway:
    guests = Guests(config.connections_max)
    return Gateway(lambda: HttpConnection(router.answer, config, guests), guests)
