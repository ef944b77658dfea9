"""Pulsar clients, over the binary protocol.

connection.py  one socket: frames in, answers out, everything of one read at once
routes.py      which command does what, and which action that needs; errors to the protocol's
handshake.py   how a connection begins and stays alive
lookup.py      partitions, the broker of a topic, the topics of a namespace
watch.py       lists of topics that are watched
places.py      from a name to a queue
producers.py   producers opened and closed, their names and access modes
produce.py     sends
unserved.py    what is answered with an error at once
"""

from penstock.clock import Clock
from penstock.config import PulsarConfig
from penstock.core.broker import Broker
from penstock.gateway.guests import Gateway, Guests
from penstock.gateway.inbox import Reception
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.handshake import Handshake
from penstock.gateway.pulsar.lookup import Home, Lookup
from penstock.gateway.pulsar.places import Places
from penstock.gateway.pulsar.produce import Produce
from penstock.gateway.pulsar.producers import ProducerDesk
from penstock.gateway.pulsar.routes import Router
from penstock.gateway.pulsar.unserved import Unserved
from penstock.gateway.pulsar.watch import Watch


def pulsar_router(broker: Broker, home: Home, clock: Clock, config: PulsarConfig) -> Router:
    """All that Pulsar clients may ask, put together."""
    places = Places(broker.topics, broker.namespaces, config)
    producers = ProducerDesk(places, broker.producers, broker.publisher, clock, config)
    watch = Watch(broker.topics, places, broker.namespaces, broker.bus, config)
    parts = (
        Unserved(),
        Handshake(config),
        Lookup(places, broker.namespaces, home),
        watch,
        producers,
        Produce(broker.publisher, broker.traffic, clock, config),
    )

    def lost(connection: Connection) -> None:
        producers.lost(connection)
        watch.lost(connection)

    return Router([part.routes() for part in parts], broker.authorizer, lost)


def pulsar_gateway(broker: Broker, home: Home, clock: Clock, config: PulsarConfig) -> Gateway:
    guests = Guests(config.connections_max)
    reception = Reception(config.receive_bytes_max, "pulsar.receive_bytes_max")
    router = pulsar_router(broker, home, clock, config)
    return Gateway(lambda: Connection(router, guests, reception, config), guests)
