"""Where messages are to go: what a task that writes asks the name servers. It waits; a task has nothing else to do."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from penstock.client.cluster import DEFAULT_QUEUES
from penstock.client.errors import ClientError, NoRoute, Refused, TimedOut, Unreachable, refusal
from penstock.client.routes import MASTER, MessageQueue, Route, route_in
from penstock.spark.link import Link
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.fastjson import FastjsonError
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.requests import DEFAULT_TOPIC

TRIES = 3
WAIT_S = 0.5


class Target(NamedTuple):
    """A topic's queues in their order, brokers and numbers, and where the brokers are."""

    queues: Sequence[MessageQueue]
    addresses: Mapping[str, str]


def ask_names(service: str, code: int, ext: Mapping[str, str]) -> tuple[Frame, str]:
    """The answer of the first name server that gives one, and who that is. All are tried more than once: one of them
    may just be starting again.
    """
    failures: dict[str, ClientError] = {}
    for attempt in range(TRIES):
        time.sleep(WAIT_S * attempt)
        for address in service.split(";"):
            try:
                return _asked(address, code, ext), address
            except (Unreachable, TimedOut) as error:
                failures[address] = error
    if len(failures) == 1:
        raise failures.popitem()[1]
    raise Unreachable(service, "; ".join(str(error) for error in failures.values()))


def _asked(address: str, code: int, ext: Mapping[str, str]) -> Frame:
    with Link(address) as link:
        answer = link.ask(code, ext)
        answer.body = memoryview(bytes(answer.body))
        return answer


def target(service: str, topic: str) -> Target:
    """Where a topic's messages go; for one that does not exist, where it would be created, or NoRoute."""
    try:
        route = _route(service, topic)
        queues = route.to_write(topic)
    except NoRoute:
        try:
            route = _route(service, DEFAULT_TOPIC)
        except NoRoute:
            raise NoRoute(topic) from None
        queues = [queue for queue in route.to_write(topic) if queue.queue < DEFAULT_QUEUES]
    if not queues:
        raise NoRoute(topic)
    addresses = {broker.broker_name: broker.broker_addrs.get(MASTER, "") for broker in route.broker_datas}
    return Target(queues, addresses)


def _route(service: str, topic: str) -> Route:
    asked = {"topic": topic, "acceptStandardJsonOnly": "true"}
    answer, server = ask_names(service, RequestCode.GET_ROUTEINFO_BY_TOPIC, asked)
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        raise NoRoute(topic)
    if answer.code != ResponseCode.SUCCESS:
        raise refusal(answer, server)
    try:
        return route_in(answer.body)
    except (FastjsonError, msgspec.ValidationError) as error:
        raise Refused(answer.code, f"its route for {topic!r} cannot be read: {error}", server) from None
