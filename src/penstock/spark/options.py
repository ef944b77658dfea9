"""The options of a read, as people know them from Spark's Kafka connector, and what they mean. Pure.

Spark hands options over as texts under names whose case does not count. `read_options` checks all of them and makes
`Options`; a name that no option has is refused with the nearest one that there is. Where a queue has to be named, it is
its number (`"0"`) on a topic that one broker has, and `"broker-a:0"` anywhere.
"""

import difflib
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from penstock.admin.errors import BadPlace
from penstock.admin.place import TIME, TIME_MS_MAX, place
from penstock.client.cluster import name_servers
from penstock.client.consumer.subscription import ALL, tags_in
from penstock.errors import ConfigError

BATCH, STREAM = "batch", "stream"
READ = "read"  # one of both: which it will be is not known yet
EARLIEST, LATEST = "earliest", "latest"
EARLIEST_NUMBER, LATEST_NUMBER = -2, -1  # in JSON, as Kafka's connector has it
OFFSET_MAX = (1 << 63) - 1
TASKS_MAX = 100_000
GROUP_PREFIX = "penstock-spark"
NO_PROPERTIES, WITH_PROPERTIES, ALL_PROPERTIES = "false", "true", "all"
GROUP_CHARS_MAX = 120  # RocketMQ's clients allow no more

SCHEME = "pulsar://"  # what a service begins with that is spoken to as a Pulsar; others speak RocketMQ's protocol
ByQueue = dict[str, dict[str, int]]  # topic -> queue -> offset or time


class Edge(msgspec.Struct, frozen=True):
    """Where reading begins or ends. One of: a word (`earliest`, `latest`), offsets by queue, a time for all queues,
    times by queue. Times are in ms, and mean the first message that was stored then or later.
    """

    word: str = ""
    offsets: ByQueue | None = None
    time_ms: int | None = None
    times: ByQueue | None = None
    option: str = ""  # which said so, for errors


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a read is asked to do. Pickled on its way to the executors."""

    service: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    starting: Edge
    ending: Edge = Edge(LATEST)
    latest_if_no_match: bool = False  # a starting time that is behind the last message is not an error
    offsets_per_trigger_max: int | None = None
    partitions_min: int | None = None
    fail_on_data_loss: bool = True
    group_prefix: str = GROUP_PREFIX
    tags: str = ALL
    commit_group: str = ""
    properties: str = NO_PROPERTIES
    value_format: str = ""  # json, avro, string or binary; empty: the body is not parsed
    value_schema: str = ""

    @property
    def include_properties(self) -> bool:
        return self.properties != NO_PROPERTIES

    @property
    def all_properties(self) -> bool:
        """Also those that other columns have, and those that clients and brokers write for each other."""
        return self.properties == ALL_PROPERTIES

    def group_of(self, topic: str) -> str:
        """The group that pulls of a topic name. The same for all queries: RocketMQ keeps every name
        that it has ever heard.
        """
        return f"{self.group_prefix}-{topic}"[:GROUP_CHARS_MAX]


# --- one value --------------------------------------------------------------------------------------------------------

_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]{1,255}", re.ASCII)
_GROUP = re.compile(r"[%|a-zA-Z0-9_-]{1,255}", re.ASCII)
_DIGITS = re.compile(r"\d{1,18}", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
VALUE_FORMATS = ("json", "avro", "string", "binary")


def a_service(text: str) -> str:
    scheme, mark, rest = text.strip().partition("://")
    if f"{scheme}{mark}" == SCHEME:
        return SCHEME + ",".join(_with_port(part) for part in rest.rstrip("/").split(","))
    if mark and scheme != "rocketmq":
        hint = "TLS is not supported yet, " if scheme == "pulsar+ssl" else ""
        raise ValueError(f"{scheme}:// is no service: {hint}give rocketmq://host:port or pulsar://host:port")
    servers = name_servers(rest if mark else text)
    for server in servers:
        port = server.rpartition(":")[2]
        if not (_DIGITS.fullmatch(port) and 0 < int(port) < 65_536):
            raise ValueError(f"{server!r} has no port: give rocketmq://host:port, several with ; between")
    return ";".join(servers)


def _with_port(server: str) -> str:
    """host:port of a Pulsar."""
    host, _, port = server.strip().rpartition(":")
    if not (host and _DIGITS.fullmatch(port) and 0 < int(port) < 65_536):
        raise ValueError(f"{server!r} has no port: give pulsar://host:port, several with commas between")
    return f"{host}:{port}"


def topic_names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    wrong = [name for name in names if not _TOPIC.fullmatch(name)]
    if wrong or not names:
        raise ValueError("give the name of a topic, or several with commas between")
    return names


def a_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from None
    if not text:
        raise ValueError("it is empty")
    return text


def a_boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.strip().lower()]
    except KeyError:
        raise ValueError("it has to be true or false") from None


def task_count(text: str) -> int:
    if not (_DIGITS.fullmatch(text.strip()) and 0 < int(text) <= TASKS_MAX):
        raise ValueError(f"it has to be a whole number from 1 to {TASKS_MAX}")
    return int(text)


def a_count(text: str) -> int:
    if not (_DIGITS.fullmatch(text.strip()) and int(text) > 0):
        raise ValueError("it has to be a whole number above 0")
    return int(text)


def a_group(text: str) -> str:
    if not _GROUP.fullmatch(text.strip()):
        raise ValueError("a group's name has letters, digits and % | - _ only, 255 at most")
    return text.strip()


def tag_expression(text: str) -> str:
    return text.strip() if tags_in(text) else ALL


def a_time_ms(text: str) -> int:
    """Milliseconds since 1970, as Kafka's connector takes them; or a time as people write it."""
    word = text.strip()
    if _DIGITS.fullmatch(word):
        if int(word) > TIME_MS_MAX:
            raise ValueError("that is behind the year 9999: give milliseconds since 1970")
        return int(word)
    try:
        found = place(word, int(time.time() * 1000))
    except BadPlace:
        found = None
    if found is None or found.kind != TIME:
        raise ValueError("give milliseconds since 1970, 2026-01-31T12:00Z, or 15m (ago; s, m, h, d)")
    return found.value


def one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(f"it has to be one of {', '.join(words)}")
        return text.strip().lower()

    return read


def by_queue(text: str, least: int) -> ByQueue:
    try:
        found = msgspec.json.decode(text, type=ByQueue)
    except msgspec.DecodeError:
        raise ValueError('give JSON by topic and queue, such as {"orders": {"0": 23, "1": -2}}') from None
    if any(not least <= number <= OFFSET_MAX for queues in found.values() for number in queues.values()):
        raise ValueError(
            f"the least number that has a meaning is {least}"
            + (f" ({EARLIEST_NUMBER} is the earliest offset, {LATEST_NUMBER} the latest)" if least < 0 else "")
        )
    return found


def offsets(text: str) -> str | ByQueue:
    word = text.strip().lower()
    if word in (EARLIEST, LATEST):
        return word
    if not word.startswith("{"):
        raise ValueError('it has to be earliest, latest, or JSON such as {"orders": {"0": 23, "1": -2}}')
    return by_queue(text, least=EARLIEST_NUMBER)


def times(text: str) -> ByQueue:
    return by_queue(text, least=0)


def a_text(text: str) -> str:
    return text


# --- all there are ----------------------------------------------------------------------------------------------------


class Option(NamedTuple):
    """One option: its name, how its text is read (ValueError says why not), and what kinds of query have it."""

    name: str
    read: Callable[[str], object]
    kinds: tuple[str, ...] = (BATCH, STREAM)


READ_OPTIONS = (
    Option("service", a_service),
    Option("topic", topic_names),
    Option("topicPattern", a_pattern),
    Option("startingOffsets", offsets),
    Option("startingTimestamp", a_time_ms),
    Option("startingOffsetsByTimestamp", times),
    Option("startingOffsetsByTimestampStrategy", one_of("error", LATEST)),
    Option("endingOffsets", offsets, (BATCH,)),
    Option("endingTimestamp", a_time_ms, (BATCH,)),
    Option("endingOffsetsByTimestamp", times, (BATCH,)),
    Option("maxOffsetsPerTrigger", a_count, (STREAM,)),
    Option("minPartitions", task_count),
    Option("failOnDataLoss", a_boolean),
    Option("groupIdPrefix", a_group),
    Option("tags", tag_expression),
    Option("commitGroup", a_group, (STREAM,)),
    Option("includeProperties", one_of(NO_PROPERTIES, WITH_PROPERTIES, ALL_PROPERTIES)),
    Option("valueFormat", one_of(*VALUE_FORMATS)),
    Option("valueSchema", a_text),
)
ADDED_BY_SPARK = frozenset({"path", "paths", "checkpointlocation", "queryname", "outputmode"})
ELSEWHERE = {  # what others call it
    "assign": "topic and startingOffsets",
    "subscribe": "topic",
    "subscribepattern": "topicPattern",
    "topics": "topic",
    "kafka.bootstrap.servers": "service",
    "bootstrap.servers": "service",
    "namesrv": "service",
    "nameserver": "service",
    "kafka.group.id": "groupIdPrefix or commitGroup",
    "includeheaders": "includeProperties",
    "schema": ".schema(...) or valueSchema",
}

Values = dict[str, object]


def checked(given: Mapping[str, str], known: Iterable[Option], kind: str) -> Values:
    """The values of the options that are given, under their names. ConfigError for what is unknown or wrong."""
    by_name = {option.name.lower(): option for option in known}
    values: Values = {}
    for name, text in given.items():
        if name.lower() in ADDED_BY_SPARK:
            continue
        option = by_name.get(name.lower())
        if option is None:
            raise ConfigError(f"{name} is not an option of a {kind} query{_nearest(name, by_name)}")
        if kind != READ and kind not in option.kinds:
            raise ConfigError(f"the option {option.name} has no meaning in a {kind} query: leave it out")
        try:
            values[option.name] = option.read(text)
        except ValueError as error:
            raise ConfigError(f"the option {option.name} is {text[:200]!r}: {error}") from None
    return values


def _nearest(name: str, known: Mapping[str, Option]) -> str:
    elsewhere = ELSEWHERE.get(name.lower())
    if elsewhere:
        return f": here it is {elsewhere}"
    matches = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f": did you mean {known[matches[0]].name}?" if matches else f": there are {_listed(known)}"


def _listed(known: Mapping[str, Option]) -> str:
    return ", ".join(option.name for option in known.values())


# --- together ---------------------------------------------------------------------------------------------------------


def read_options(given: Mapping[str, str], kind: str) -> Options:
    """The options of a read; ConfigError says what is wrong with the first that is."""
    values = checked(given, _known(given), kind)
    _check_topics(values)
    starting = _edge(values, "starting", default=LATEST if kind == STREAM else EARLIEST)
    ending = _edge(values, "ending", default=LATEST)
    if kind == BATCH:
        _check_words(starting, ending)
    return Options(
        starting=starting,
        ending=ending,
        latest_if_no_match=values.get("startingOffsetsByTimestampStrategy") == LATEST,
        **{_FIELDS[name]: value for name, value in values.items() if name in _FIELDS},  # type: ignore[arg-type]
    )


def is_pulsar(given: Mapping[str, str]) -> bool:
    """Whether the service that options name is spoken to as a Pulsar."""
    return any(name.lower() == "service" and text.strip().startswith(SCHEME) for name, text in given.items())


def _known(given: Mapping[str, str]) -> tuple[Option, ...]:
    """All options, as the service understands them."""
    if not is_pulsar(given):
        return READ_OPTIONS
    from penstock.spark.pulsar.options import PULSAR_OPTIONS

    return PULSAR_OPTIONS


_FIELDS = {
    "service": "service",
    "topic": "topics",
    "topicPattern": "pattern",
    "maxOffsetsPerTrigger": "offsets_per_trigger_max",
    "minPartitions": "partitions_min",
    "failOnDataLoss": "fail_on_data_loss",
    "groupIdPrefix": "group_prefix",
    "tags": "tags",
    "commitGroup": "commit_group",
    "includeProperties": "properties",
    "valueFormat": "value_format",
    "valueSchema": "value_schema",
}


def _check_topics(values: Values) -> None:
    if "service" not in values:
        raise ConfigError(
            'the option service is missing: which cluster is to be read? "rocketmq://host:port" or "pulsar://host:port"'
        )
    if ("topic" in values) == ("topicPattern" in values):
        raise ConfigError("give one of the options topic (one, or several with commas between) and topicPattern")


def _edge(values: Values, end: str, default: str) -> Edge:
    """A time for all goes before times by queue, and these before offsets, as in Kafka's connector."""
    for option, field in ((f"{end}Timestamp", "time_ms"), (f"{end}OffsetsByTimestamp", "times")):
        if option in values:
            return Edge(option=option, **{field: values[option]})  # type: ignore[arg-type]
    option = f"{end}Offsets"
    found = values.get(option, default)
    return Edge(word=found, option=option) if isinstance(found, str) else Edge(offsets=found, option=option)  # type: ignore[arg-type]


def _check_words(starting: Edge, ending: Edge) -> None:
    """What a batch can never have read, as Kafka's connector refuses it."""
    if starting.word == LATEST or LATEST_NUMBER in _numbers(starting):
        raise ConfigError("a batch query cannot start at the latest offsets: it would always be empty")
    if ending.word == EARLIEST or EARLIEST_NUMBER in _numbers(ending):
        raise ConfigError("a batch query cannot end at the earliest offsets: it would always be empty")
    if starting.time_ms is not None and ending.time_ms is not None and ending.time_ms < starting.time_ms:
        raise ConfigError("endingTimestamp is before startingTimestamp: the query would always be empty")


def _numbers(edge: Edge) -> set[int]:
    return {number for queues in (edge.offsets or {}).values() for number in queues.values()}
