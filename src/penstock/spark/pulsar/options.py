"""What options mean where the service is a Pulsar: names of topics, and places instead of numbers. Pure.

A topic of `public/default` goes by its own name, another by `tenant/namespace/name`; so it is called in the column
`topic` and in checkpoints, however an option has written it.
"""

import msgspec

from penstock.errors import BadTopicName
from penstock.spark.options import (
    EARLIEST,
    EARLIEST_NUMBER,
    LATEST,
    OFFSET_MAX,
    READ_OPTIONS,
    SCHEME,
    ByQueue,
    Option,
)
from penstock.spark.pulsar.positions import Place, unpacked
from penstock.wire.pulsar.topics import DEFAULT, NON_PERSISTENT, PUBLIC, TopicName, topic_name

PORT = 6650


def servers(service: str) -> list[str]:
    """host:port of each that the option `service` names."""
    return service.removeprefix(SCHEME).split(",")


def short(name: TopicName) -> str:
    """How a topic is called here."""
    home = (name.tenant, name.namespace) == (PUBLIC, DEFAULT)
    return name.local if home else f"{name.tenant}/{name.namespace}/{name.local}"


def full(topic: str) -> str:
    return topic_name(topic).full


def topic_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_short_of(part.strip()) for part in text.split(",") if part.strip())) or _none()


def one_topic(text: str) -> str:
    names = topic_names(text)
    if len(names) > 1:
        raise ValueError("give one topic; rows for several have a column topic")
    return names[0]


def _none() -> tuple[str, ...]:
    raise ValueError("give the name of a topic, or several with commas between")


def _short_of(text: str) -> str:
    try:
        name = topic_name(text)
    except BadTopicName as error:
        raise ValueError(str(error)) from None
    if name.domain == NON_PERSISTENT:
        raise ValueError(f"{text} is not persistent: there is nothing of it to read")
    if name.partition >= 0:
        raise ValueError(f"{text} is a partition: give its topic {short(name)}, and read `where queue = N`")
    return short(name)


def places(text: str) -> str | ByQueue:
    """A word, or by topic and partition: a place as text, or what the column `offset` has for it."""
    word = text.strip().lower()
    if word in (EARLIEST, LATEST):
        return word
    wrong = 'give earliest, latest, or JSON by topic and partition, such as {"orders": {"0": "12:345", "1": -2}}'
    try:
        found = msgspec.json.decode(text, type=dict[str, dict[str, int | str]])
    except msgspec.DecodeError:
        raise ValueError(wrong) from None
    return {topic: {part: _place(value) for part, value in parts.items()} for topic, parts in found.items()}


def _place(value: int | str) -> int:
    if isinstance(value, str):
        return Place.parsed(value)
    if not EARLIEST_NUMBER <= value <= OFFSET_MAX:
        raise ValueError(f"{value} is no offset: -2 is the earliest, -1 the latest")
    return value if value < 0 else unpacked(value)


def sink_options(known: tuple[Option, ...]) -> tuple[Option, ...]:
    return tuple(Option(one.name, one_topic if one.name == "topic" else one.read, one.kinds) for one in known)


_OTHERS = {"topic": topic_names, "startingOffsets": places, "endingOffsets": places}
PULSAR_OPTIONS = tuple(Option(one.name, _OTHERS.get(one.name, one.read), one.kinds) for one in READ_OPTIONS)
