"""Lists of topics that clients watch: WATCH_TOPIC_LIST, and what has changed in them.

Java's clients use it for subscriptions by pattern, the others ask again and again. The expression is the client's, so
it is matched in linear time (`wire/pulsar/patterns.py`); the client matches for itself what it is told.
"""

from collections.abc import Iterable

from penstock.config import PulsarConfig
from penstock.core.events import Bus, Event, TopicChanged, TopicCreated, TopicDeleted
from penstock.core.namespaces import Namespaces
from penstock.core.topics import Topics
from penstock.errors import NamespaceNotFound
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.places import Places, names_of
from penstock.gateway.pulsar.routes import Refused, Route, Routes
from penstock.model import Action
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError
from penstock.wire.pulsar.patterns import Pattern, PatternError
from penstock.wire.pulsar.topics import PERSISTENT, check_namespace, from_own, topic_name, topics_hash

_SCHEME = f"{PERSISTENT}://"


class Watcher:
    """One list: which names belong to it, and which are in it at present."""

    __slots__ = ("_pattern", "connection", "names", "namespace", "watcher_id")

    def __init__(self, connection: Connection, watcher_id: int, namespace: str, pattern: Pattern) -> None:
        self.connection, self.watcher_id, self.namespace, self._pattern = connection, watcher_id, namespace, pattern
        self.names: set[str] = set()

    def of(self, names: Iterable[str]) -> list[str]:
        """Those that belong to it. A partition belongs to it when its topic does."""
        return [name for name in names if self._pattern.matches(topic_name(name).base.removeprefix(_SCHEME))]

    def change(self, gone: set[str], come: set[str]) -> None:
        self.names = self.names - gone | come
        update = pb.CommandWatchTopicUpdate(
            watcher_id=self.watcher_id,
            new_topics=sorted(come),
            deleted_topics=sorted(gone),
            topics_hash=topics_hash(self.names),
        )
        self.connection.send(BaseCommand.WATCH_TOPIC_UPDATE, update)


class Watch:
    def __init__(self, topics: Topics, places: Places, namespaces: Namespaces, bus: Bus, config: PulsarConfig) -> None:
        self._topics, self._places, self._namespaces = topics, places, namespaces
        self._watchers_max = config.watchers_per_connection_max
        self._by_namespace: dict[str, set[Watcher]] = {}
        bus.listen(self._heard)

    def routes(self) -> Routes:
        return {
            BaseCommand.WATCH_TOPIC_LIST: Route(self.watch, Action.LOOKUP, "namespace"),
            BaseCommand.WATCH_TOPIC_LIST_CLOSE: Route(self.close, Action.LOOKUP, ""),
        }

    def watch(self, asked: pb.CommandWatchTopicList, connection: Connection) -> None:
        """Begin, or begin anew under a number that is in use: the list is made again then."""
        namespace = check_namespace(asked.namespace)
        if namespace not in self._namespaces and not self._places.names_in(namespace):
            raise NamespaceNotFound(namespace)
        if asked.watcher_id not in connection.watchers and len(connection.watchers) >= self._watchers_max:
            why = f"a connection watches at most {self._watchers_max} lists (pulsar.watchers_per_connection_max)"
            raise Refused(ServerError.NotAllowedError, why)
        watcher = Watcher(connection, asked.watcher_id, namespace, pattern_of(asked.topics_pattern))
        watcher.names = set(watcher.of(self._places.names_in(namespace)))
        self._remove(connection, asked.watcher_id)
        connection.watchers[asked.watcher_id] = watcher
        self._by_namespace.setdefault(namespace, set()).add(watcher)
        found = topics_hash(watcher.names)
        answer = pb.CommandWatchTopicListSuccess(
            request_id=asked.request_id,
            watcher_id=asked.watcher_id,
            topic=[] if found == asked.topics_hash else sorted(watcher.names),
            topics_hash=found,
        )
        connection.send(BaseCommand.WATCH_TOPIC_LIST_SUCCESS, answer)

    def close(self, asked: pb.CommandWatchTopicListClose, connection: Connection) -> None:
        self._remove(connection, asked.watcher_id)
        connection.send(BaseCommand.SUCCESS, pb.CommandSuccess(request_id=asked.request_id))

    def lost(self, connection: Connection) -> None:
        for watcher_id in list(connection.watchers):
            self._remove(connection, watcher_id)

    def _remove(self, connection: Connection, watcher_id: int) -> None:
        watcher = connection.watchers.pop(watcher_id, None)
        if watcher is not None:
            there = self._by_namespace[watcher.namespace]
            there.discard(watcher)
            if not there:
                del self._by_namespace[watcher.namespace]

    def _heard(self, event: Event) -> None:
        """A topic has come, gone, or has more partitions."""
        if not isinstance(event, TopicCreated | TopicDeleted | TopicChanged) or not self._by_namespace:
            return
        name, topic = from_own(event.topic), self._topics.find(event.topic)
        if name is None:
            return
        namespace = f"{name.tenant}/{name.namespace}"
        now = names_of(topic, namespace) if topic is not None else []
        for watcher in tuple(self._by_namespace.get(namespace, ())):
            before = {each for each in watcher.names if topic_name(each).base == name.base}
            after = set(watcher.of(now))
            if before != after:
                watcher.change(before - after, after - before)


def pattern_of(text: str | bytes) -> Pattern:
    if isinstance(text, bytes):
        raise Refused(ServerError.InvalidTopicName, "the pattern is not UTF-8")
    try:
        return Pattern(text.removeprefix(_SCHEME))
    except PatternError as error:
        raise Refused(ServerError.NotAllowedError, f"the pattern {text[:200]!r} is not taken: {error}") from None
