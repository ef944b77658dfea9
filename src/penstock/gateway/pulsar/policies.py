"""What policies mean to Pulsar's clients: the defaults, from the broker's configuration, and the limits that follow."""

from collections import OrderedDict
from collections.abc import Callable

from penstock.clock import Clock
from penstock.config import PulsarConfig
from penstock.core.policies import Creation, Delaying, Policies, PolicyBook, Rate
from penstock.core.subscriptions.subscription import Limits
from penstock.core.topics import Topics
from penstock.gateway.pulsar.places import is_ours
from penstock.gateway.pulsar.routes import Refused
from penstock.wire.pulsar.commands_pb2 import ServerError
from penstock.wire.pulsar.topics import from_own

COMERS_MAX = 10_000  # consumers whose subscribes are counted

Comer = tuple[str, str, str, int]  # topic, host, consumer's name and number


def defaults_of(config: PulsarConfig) -> Policies:
    """What holds where nothing is set."""
    return Policies(
        deduplication=config.deduplication,
        unacked_per_consumer_max=config.unacked_per_consumer_max,
        unacked_per_subscription_max=config.unacked_per_subscription_max,
        delaying=Delaying(),
        topic_creation=Creation(config.auto_create_topics, config.auto_create_partitions),
        subscription_creation=config.auto_create_subscriptions,
        schema_strategy=config.schema_compatibility,
        schema_validation=config.schema_validation,
        schema_auto_update=config.schema_auto_update,
    )


def namespaces_of(topics: Topics) -> Callable[[str], str | None]:
    """From a topic's name to its namespace. Those that RocketMQ's clients made are in none: what is
    set for all of a namespace does not change how their messages are kept.
    """

    def namespace_of(topic: str) -> str | None:
        found, name = topics.find(topic), from_own(topic)
        if name is None or (found is not None and not is_ours(found)):
            return None
        return f"{name.tenant}/{name.namespace}"

    return namespace_of


def limits_of(policies: Policies) -> Limits:
    return Limits(
        unacked_max=policies.unacked_per_subscription_max or 0,
        unacked_per_consumer_max=policies.unacked_per_consumer_max or 0,
        consumers_max=policies.consumers_per_subscription_max or 0,
        delays=policies.delaying is None or policies.delaying.active,
    )


class SubscribeRates:
    """How often a consumer may subscribe: it comes again and again when its application cannot cope."""

    def __init__(self, policies: PolicyBook, clock: Clock) -> None:
        self._policies, self._clock = policies, clock
        self._since: OrderedDict[Comer, tuple[int, int]] = OrderedDict()  # when its period began, how often it came

    def check(self, comer: Comer) -> None:
        rate = self._policies.applied(comer[0]).subscribe_rate
        if rate is not None and rate.count > 0:
            self._count(comer, rate)

    def _count(self, comer: Comer, rate: Rate) -> None:
        now_ms = int(self._clock.monotonic_ms())
        begun_ms, times = self._since.pop(comer, (now_ms, 0))
        if now_ms - begun_ms >= 1_000 * rate.period_s:
            begun_ms, times = now_ms, 0
        self._since[comer] = (begun_ms, times + 1)
        while len(self._since) > COMERS_MAX:
            self._since.popitem(last=False)
        if times >= rate.count:
            why = f"Subscribe limited by subscribe rate limit per consumer: {rate.count} in {rate.period_s} s"
            raise Refused(ServerError.NotAllowedError, why)
