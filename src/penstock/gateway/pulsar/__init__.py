"""Pulsar clients, over the binary protocol; and by HTTP, what its clients and operators' tools ask there.

connection.py  one socket: frames in, answers out, everything of one read at once
routes.py      which command does what, and which action that needs; errors to the protocol's
handshake.py   how a connection begins and stays alive
lookup.py      partitions, the broker of a topic, the topics of a namespace
watch.py       lists of topics that are watched
places.py      from a name to a queue
schemas.py     schemas that are asked for, or brought along
producers.py   producers opened and closed, their names and access modes
produce.py     sends
consumers.py   consumers opened and closed
subscribing.py the subscription that a consumer joins
consumer.py    one consumer: what it is pushed
consume.py     permits, acknowledgements, what comes back
seek.py        where a consumer is, and where it wants to be
policies.py    what policies mean to clients
positions.py   from message ids to rows
inspect.py     what dispatch wants to know of an entry
foreign.py     what RocketMQ's clients wrote
unserved.py    what is answered with an error at once
admin/         the HTTP side
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.clock import Clock
from penstock.config import PulsarConfig
from penstock.core.broker import Broker
from penstock.core.events import Event, TopicDeleted
from penstock.core.subscriptions.feeder import Insight
from penstock.errors import ProducerBusy
from penstock.gateway.guests import Gateway, Guests
from penstock.gateway.inbox import Reception
from penstock.gateway.pulsar.admin import Desks, admin_table
from penstock.gateway.pulsar.admin.table import Table
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.consume import Consume
from penstock.gateway.pulsar.consumers import ConsumerDesk
from penstock.gateway.pulsar.foreign import MINE, as_entries
from penstock.gateway.pulsar.handshake import Handshake
from penstock.gateway.pulsar.inspect import inspect
from penstock.gateway.pulsar.lookup import Home, Lookup
from penstock.gateway.pulsar.places import Places
from penstock.gateway.pulsar.policies import defaults_of, limits_of, namespaces_of
from penstock.gateway.pulsar.produce import Produce
from penstock.gateway.pulsar.producers import ProducerDesk
from penstock.gateway.pulsar.routes import Router
from penstock.gateway.pulsar.schemas import SchemaDesk
from penstock.gateway.pulsar.seek import Seek
from penstock.gateway.pulsar.subscribing import Subscribing
from penstock.gateway.pulsar.unserved import Unserved
from penstock.gateway.pulsar.watch import Watch
from penstock.wire.pulsar.compacting import Compactor


class Sides(NamedTuple):
    """The two sides of it: a gateway of its own, and what is mounted on the HTTP port."""

    gateway: Gateway
    admin: Table


def pulsar_sides(broker: Broker, home: Home, clock: Clock, config: PulsarConfig, obstacle: Callable[[], str]) -> Sides:
    """All that Pulsar clients may ask, put together. `obstacle` says why the broker is not ready."""
    policies = broker.policies
    policies.serve(namespaces_of(broker.topics), defaults_of(config))
    places = Places(broker.topics, broker.namespaces, policies)
    places.open_old_ones()
    subscribing = Subscribing(broker.subscriptions, broker.fetcher, clock, policies)
    schemas = SchemaDesk(places, broker.schemas, policies, broker.producers, broker.subscriptions, broker.fetcher)
    consumers = ConsumerDesk(places, subscribing, broker.subscriptions, policies, schemas, clock, config)
    insight = Insight(inspect, MINE, as_entries)
    broker.subscriptions.serve(insight, lambda queue: limits_of(policies.at(queue)), consumers.send_away)
    broker.bus.listen(partial(_on_event, broker))
    policies.on_change(broker.subscriptions.limit)
    broker.compaction.serve(f"{Compactor.__module__}:{Compactor.__name__}")
    seek = Seek(consumers, broker.subscriptions, broker.compaction, broker.fetcher)
    desks = Desks(places, subscribing, consumers, seek, home)
    router = _router(broker, desks, schemas, clock, config)
    guests = Guests(config.connections_max)
    reception = Reception(config.receive_bytes_max, "pulsar.receive_bytes_max")
    gateway = Gateway(lambda: Connection(router, guests, reception, broker.turn, config), guests)
    return Sides(gateway, admin_table(broker, desks, clock, config, obstacle))


def _on_event(broker: Broker, event: Event) -> None:
    """Producers of a topic that was deleted have to go, also when RocketMQ's tools did it."""
    if isinstance(event, TopicDeleted):
        broker.producers.send_away_from(broker.topics.has_queue, ProducerBusy(f"{event.topic} was deleted"))


def _router(broker: Broker, desks: Desks, schemas: SchemaDesk, clock: Clock, config: PulsarConfig) -> Router:
    places, subscribing, consumers, seek, home = desks
    producers = ProducerDesk(
        places, broker.producers, broker.publisher, broker.policies, subscribing, schemas, clock, config
    )
    broker.policies.on_change(producers.limit)
    watch = Watch(broker.topics, places, broker.namespaces, broker.bus, config)
    parts = (
        Unserved(),
        Handshake(config),
        Lookup(places, broker.namespaces, home),
        watch,
        producers,
        Produce(broker.publisher, broker.traffic, clock, config),
        consumers,
        Consume(broker.subscriptions, broker.fetcher),
        seek,
        schemas,
    )

    def lost(connection: Connection) -> None:
        producers.lost(connection)
        consumers.lost(connection)
        seek.lost(connection)
        watch.lost(connection)

    return Router([part.routes() for part in parts], broker.authorizer, lost)
