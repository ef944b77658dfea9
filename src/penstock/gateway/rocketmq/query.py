"""Messages by their keys (code 12): by one of the keys, by the unique key that a client gave, or by the tag."""

import msgspec

from penstock.core.fetch import Fetcher
from penstock.core.keys import KeyIndex, Search
from penstock.core.topics import READ, Topic, Topics
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.later import Later
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as
from penstock.model import Action
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.peek import has_key, properties_in
from penstock.wire.rocketmq.record import java_hash

MESSAGES_MAX, UNIQUE_MAX, BYTES_MAX = 64, 32, 8 << 20
_UNIQUE, _TAG = "U", "T"  # kinds of index, as 5.x names them


class _Query(msgspec.Struct, rename={"unique": "_UNIQUE_KEY_QUERY"}):
    topic: str
    key: str
    maxNum: int  # noqa: N815  # the wire's names
    beginTimestamp: int  # noqa: N815
    endTimestamp: int  # noqa: N815
    unique: bool = False
    indexType: str = ""  # noqa: N815


class Query:
    def __init__(self, topics: Topics, fetcher: Fetcher, keys: KeyIndex) -> None:
        self._topics, self._fetcher, self._keys, self._later = topics, fetcher, keys, Later()

    def routes(self) -> Routes:
        return {RequestCode.QUERY_MESSAGE: Route(self.query, Action.CONSUME)}

    def query(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_Query, frame)
        topic = self._topics.get(asked.topic)
        if not topic.permissions & READ:
            raise Refused(ResponseCode.NO_PERMISSION, f"topic {topic.name!r} is not readable")
        latest_ms = max(self._fetcher.latest_ms(queue) for queue in topic.queues)
        ext = {"indexLastUpdateTimestamp": str(latest_ms), "indexLastUpdatePhyoffset": "0"}
        self._later(frame, connection, self._found(asked, topic), ext)

    async def _found(self, asked: _Query, topic: Topic) -> bytes:
        unique, key = asked.unique or asked.indexType == _UNIQUE, asked.key
        count = UNIQUE_MAX if unique else min(max(asked.maxNum, 1), MESSAGES_MAX)
        search = Search(
            asked.beginTimestamp, asked.endTimestamp, lambda payload: has_key(payload, key, unique), count, BYTES_MAX
        )
        if asked.indexType == _TAG:
            search = search._replace(matches=lambda payload: properties_in(payload).get(props.TAGS) == key)
            found = await self._keys.find_tagged(topic.queues, java_hash(key), search)
        else:
            found = await self._keys.find(topic.queues, key.encode(), search)
        if not found:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, "no such message was stored in this range of time")
        return b"".join(found)
