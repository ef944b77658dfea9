"""What clients with an http:// service URL ask: which broker serves a topic, and which bundle it is in.

The one broker is this one. Where nothing is advertised, clients are told the name by which they have come here.
"""

from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.answers import Declined, in_words
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.admin.names import topic_of
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.lookup import Home
from penstock.gateway.pulsar.places import Places
from penstock.model import Action

BUNDLE = "0x00000000_0xffffffff"  # all of a namespace: there is one broker
_TOPIC = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"


class Lookup:
    def __init__(self, places: Places, home: Home) -> None:
        self._places, self._home = places, home

    def routes(self) -> list[Route]:
        return [
            Route("GET", _TOPIC, self.lookup, Action.LOOKUP),
            Route("GET", f"{_TOPIC}/bundle", self.bundle, Action.LOOKUP),
        ]

    async def lookup(self, asked: Asked) -> Reply:
        listener = asked.query.get("listenerName") or asked.request.header(b"x-pulsar-listenername")
        if listener:
            raise Declined(404, f"the broker do not have {listener[:200]} listener")  # a sentence that clients know
        self._places.check(topic_of(asked, self._places))
        url = self._home.url_for(asked.host)
        http = f"http://{self._home.http_address_for(asked.host)}"
        # One client needs the keys of what is not there.
        return in_json({"brokerUrl": url, "brokerUrlTls": "", "httpUrl": http, "httpUrlTls": "", "nativeUrl": url})

    async def bundle(self, asked: Asked) -> Reply:
        topic_of(asked, self._places)
        return in_words(BUNDLE)
