"""What the stories share: numbered messages, and which client has what."""

import pytest
from tests.compat.pulsar import toolchain
from tests.compat.pulsar.drivers import Client, Consumer, Line, Message, until


def only(*kinds: str) -> pytest.MarkDecorator:
    """For what not every client has: @only("java", "go")."""
    names = [name for name in toolchain.DRIVERS if name.partition("-")[0] in kinds]
    return pytest.mark.parametrize("driver", names, indirect=True, scope="session")


def numbers(count: int, first: int = 0) -> list[str]:
    return [str(number) for number in range(first, first + count)]


def publish(client: Client, topic: str, bodies: list[str], batch: bool = False, **more: object) -> list[Line]:
    """In order; keys k0 to k6 in turn. Their ids."""
    producer = client.producer(topic, batch=batch, **more)
    told = producer.send_all([{"body": body, "key": f"k{at % 7}"} for at, body in enumerate(bodies)])
    producer.close()
    return told


def dealt_out(consumers: list[Consumer], count: int) -> list[list[Message]]:
    """What each of them gets, until so many have come to all together."""
    got: list[list[Message]] = [[] for _ in consumers]

    def all_have_come() -> bool:
        for mine, consumer in zip(got, consumers, strict=True):
            mine += consumer.some(count, 20)
        return sum(map(len, got)) >= count

    until(all_have_come)
    return got
