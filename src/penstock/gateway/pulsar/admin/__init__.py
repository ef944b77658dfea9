"""Pulsar's HTTP side: what clients with an http:// service URL and operators' tools ask.

table.py          which method and path does what, and which action that needs
asked.py          a request, taken apart and checked
answers.py        errors to status codes
names.py          from the parts of a path to topics and namespaces
lookup.py         which broker serves a topic
topics.py         topics and partitions: listed, made, grown, deleted
subscriptions.py  subscriptions: listed, made, deleted
cursors.py        skipped, expired, reset
positions.py      positions as requests give them
messages.py       messages looked at without a consumer; peeked.py: as an HTTP reply
compaction.py     the last message of each key
termination.py    topics that take nothing more
stats.py          stats and internal stats; figures.py: the figures; sums.py: of all partitions together
schemas.py        schemas of topics; schema_policies.py: what is set for them
namespaces.py     tenants and namespaces
policies.py       what is set for a topic or namespace; shapes.py: how each policy looks
cluster.py        the cluster and its broker
unserved.py       what is not served, and why
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.clock import Clock
from penstock.config import BrokerConfig, PulsarConfig
from penstock.core.broker import Broker
from penstock.core.policies import Retention
from penstock.gateway.pulsar.admin.cluster import Cluster
from penstock.gateway.pulsar.admin.compaction import CompactionDesk
from penstock.gateway.pulsar.admin.cursors import Cursors
from penstock.gateway.pulsar.admin.figures import TopicFigures
from penstock.gateway.pulsar.admin.lookup import Lookup
from penstock.gateway.pulsar.admin.messages import Messages
from penstock.gateway.pulsar.admin.namespaces import NamespacesDesk
from penstock.gateway.pulsar.admin.policies import PoliciesDesk
from penstock.gateway.pulsar.admin.schema_policies import SchemaPolicies
from penstock.gateway.pulsar.admin.schemas import AdminSchemas
from penstock.gateway.pulsar.admin.stats import Stats
from penstock.gateway.pulsar.admin.subscriptions import SubscriptionsDesk
from penstock.gateway.pulsar.admin.table import Table
from penstock.gateway.pulsar.admin.termination import Termination
from penstock.gateway.pulsar.admin.topics import TopicsDesk
from penstock.gateway.pulsar.consumers import ConsumerDesk
from penstock.gateway.pulsar.lookup import Home
from penstock.gateway.pulsar.places import Places
from penstock.gateway.pulsar.seek import Seek
from penstock.gateway.pulsar.subscribing import Subscribing

MOUNTS = ("admin", "lookup", "status.html")  # what its paths begin with


class Desks(NamedTuple):
    """What it shares with the binary side."""

    places: Places
    subscribing: Subscribing
    consumers: ConsumerDesk
    seek: Seek
    home: Home


def admin_table(broker: Broker, desks: Desks, clock: Clock, config: PulsarConfig, obstacle: Callable[[], str]) -> Table:
    places, subscribing, consumers, seek, home = desks
    kept = broker.config.broker
    partitions_max = kept.topic_queues_max
    topics = TopicsDesk(
        broker.topics, broker.namespaces, places, broker.producers, broker.subscriptions, consumers, partitions_max
    )
    subscriptions = SubscriptionsDesk(places, subscribing, broker.subscriptions, consumers, broker.fetcher)
    figures = TopicFigures(
        broker.producers, broker.subscriptions, broker.fetcher, broker.traffic, clock, broker.policies
    )
    parts = (
        Lookup(places, home),
        topics,
        subscriptions,
        Cursors(places, broker.namespaces, subscriptions, broker.subscriptions, broker.fetcher, seek, clock),
        Messages(places, subscriptions, broker.fetcher),
        CompactionDesk(places, broker.compaction),
        Termination(places, broker.endings, broker.producers, broker.subscriptions, broker.fetcher),
        Stats(places, figures, broker.subscriptions, broker.fetcher, home, broker.endings, broker.compaction),
        NamespacesDesk(broker.tenants, broker.namespaces, broker.policies, places, topics, broker.schemas),
        PoliciesDesk(places, broker.namespaces, broker.policies, _own(kept)),
        AdminSchemas(places, broker.schemas, broker.policies),
        SchemaPolicies(places, broker.namespaces, broker.policies),
        Cluster(home, obstacle),
    )
    return Table([route for part in parts for route in part.routes()], broker.authorizer)


def _own(config: BrokerConfig) -> Retention:
    """What a topic has from the broker's configuration."""
    return Retention(config.retention_ms or None, config.retention_bytes or None)
