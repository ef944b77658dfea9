"""RocketMQ clients: a name server and a broker in this process. Both ports understand every request; the numbers do not
collide.

    connection.py  one socket: frames in, answers out, everything of one read at once
    routes.py      which code does what, and which action that needs; errors to codes
    names.py       what a name server is asked: routes, clusters, topic lists
    produce.py     sends, single and batched; ordinary_sends.py the short way for most of them
    consume.py     pulls, with long polling; ordinary_pulls.py the short way for most of them, backlog.py the shortest
    refusals.py    pulls that were refused, as events
    records.py     queues as records, whoever wrote to them; foreign.py what Pulsar's clients wrote
    positions.py   consumers' offsets, and where queues begin and end
    members.py     heartbeats, unregistering, the consumer list, queue locks
    groups.py      settings of groups, and what follows from them
    retry.py       messages that are sent back, dead letters; dead.py what is told of these
    reply.py       answers to messages, passed on to whoever asked
    staging.py     many messages published as one, once: codes of our own
    transactions.py  half messages: committed, rolled back, asked about
    kept.py        what is kept back, and the tasks that see to it in time
    admin.py       what mqadmin asks of topics, groups and who is connected
    relay.py       what it asks of a client, passed on
    figures.py     the broker's state, settings and statistics
"""

from penstock.clock import Clock
from penstock.config import RocketmqConfig
from penstock.core.broker import Broker
from penstock.core.keys import KeyIndex
from penstock.core.topics import TopicSettings
from penstock.gateway.guests import Gateway, Guests
from penstock.gateway.inbox import Reception
from penstock.gateway.rocketmq.admin import Admin
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.consume import Consume
from penstock.gateway.rocketmq.dead import teller
from penstock.gateway.rocketmq.figures import Figures
from penstock.gateway.rocketmq.groups import GroupAdmin, GroupRules
from penstock.gateway.rocketmq.house import House
from penstock.gateway.rocketmq.kept import Kept
from penstock.gateway.rocketmq.members import Members
from penstock.gateway.rocketmq.moved import MovedEvents
from penstock.gateway.rocketmq.names import Names
from penstock.gateway.rocketmq.ordinary_pulls import OrdinaryPulls
from penstock.gateway.rocketmq.ordinary_sends import OrdinarySends
from penstock.gateway.rocketmq.positions import Positions
from penstock.gateway.rocketmq.produce import Produce
from penstock.gateway.rocketmq.query import Query
from penstock.gateway.rocketmq.records import Records
from penstock.gateway.rocketmq.relay import Relay
from penstock.gateway.rocketmq.reply import Reply
from penstock.gateway.rocketmq.reset import Reset
from penstock.gateway.rocketmq.retry import Retry
from penstock.gateway.rocketmq.routes import Router
from penstock.gateway.rocketmq.staging import Stages
from penstock.gateway.rocketmq.transactions import TICK_MS, Transactions
from penstock.turn import Turn
from penstock.wire.rocketmq.peek import keys_in

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"  # where clients that trace write to; nothing here looks into it


def rocketmq_router(
    broker: Broker, house: House, clock: Clock, kept: Kept, auto_create: bool, auto_create_groups: bool = True
) -> Router:
    """All that RocketMQ clients may ask, put together."""
    topics, groups, offsets = broker.topics, broker.groups, broker.offsets
    resets = broker.resets
    rules = GroupRules(broker.group_settings, offsets, auto_create_groups)
    records = Records(topics, broker.fetcher, broker.policies, house, clock)
    members = Members(topics, groups, resets, clock, rules)
    transactions = Transactions(topics, kept.halves, kept.placer, members.producer_of, clock, broker.bus)
    kept.add("transactions", transactions.tick, TICK_MS)
    MovedEvents(topics, broker.publisher, house, clock, broker.bus)
    if topics.find(TRACE_TOPIC) is None:
        topics.create_now(TRACE_TOPIC, TopicSettings(write_queues=1), system=True)
    tell_dead = teller(clock, broker.bus)
    produce = Produce(
        topics, broker.publisher, house, auto_create, rules.of, kept, broker.traffic, broker.endings.queues, tell_dead
    )
    stages = Stages(
        broker.staging,
        topics,
        produce.topic_for,
        house,
        kept.placer,
        broker.authorizer,
        broker.traffic,
        broker.config.broker,
        broker.store.entry_bytes_max,
    )
    consume = _consume(broker, clock, rules, records, house)
    parts = (
        Names(topics, house, broker.notes, auto_create),
        produce,
        stages,
        transactions,
        Reply(topics, members, house, clock),
        consume,
        Positions(topics, broker.fetcher, offsets, resets, rules, broker.readers, broker.config.broker.young_bytes),
        members,
        Retry(topics, records, broker.publisher, rules, broker.traffic, tell_dead),
        Reset(topics, broker.fetcher, groups, offsets, resets, clock),
        Query(topics, broker.fetcher, KeyIndex(broker.store, broker.fetcher, clock, keys_in, records.messages)),
        Admin(broker, members, house, clock, records, rules),
        Figures(broker.config, house, broker.physician, broker.traffic, broker.minutes, clock.now_ms()),
        Relay(groups, records),
        GroupAdmin(broker.group_settings, rules, topics, groups, offsets),
    )
    sends = OrdinarySends(topics, broker.publisher, house, broker.traffic, broker.authorizer)
    pulls = OrdinaryPulls(consume, rules, broker)

    def take(view: memoryview, end: int, connection: Connection) -> int:
        return pulls.take(view, sends.take(view, end, connection), end, connection)

    return Router([part.routes() for part in parts], broker.authorizer, members.lost, take, broker.loans.take_back)


def _consume(broker: Broker, clock: Clock, rules: GroupRules, records: Records, house: House) -> Consume:
    return Consume(
        broker.topics,
        broker.fetcher,
        broker.waits,
        broker.groups,
        broker.offsets,
        broker.resets,
        clock,
        broker.bus,
        rules,
        broker.traffic,
        broker.readers,
        records,
        house,
    )


def rocketmq_gateway(router: Router, config: RocketmqConfig, turn: Turn) -> Gateway:
    guests = Guests(config.connections_max)
    reception = Reception(config.receive_bytes_max, "rocketmq.receive_bytes_max")
    return Gateway(lambda: Connection(router, guests, reception, turn, config.idle_timeout_ms), guests)
