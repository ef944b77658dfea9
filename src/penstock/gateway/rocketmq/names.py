"""What a name server is asked: where a topic is, which brokers there are, which topics. The one broker is this one.

Its settings (100, 101, 102, 219) are kept for the tools that write them, such as the order of a topic's queues: queues
of one broker need none.
"""

import msgspec

from penstock.core.notes import Notes
from penstock.core.topics import Topic, Topics
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.house import BROKER, CLUSTER, DEFAULT_TOPIC_QUEUES, INHERIT, READ_WRITE, House
from penstock.gateway.rocketmq.later import Later
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as
from penstock.model import Action
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.requests import DEFAULT_TOPIC


class _OfTopic(msgspec.Struct):
    topic: str


class _OfSpace(msgspec.Struct):
    namespace: str


class _OfKey(_OfSpace):
    key: str


class _Setting(_OfKey):
    value: str


class Names:
    def __init__(self, topics: Topics, house: House, notes: Notes, auto_create: bool) -> None:
        self._topics, self._house, self._notes, self._auto_create = topics, house, notes, auto_create
        self._later = Later()

    def routes(self) -> Routes:
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: Route(self.route, Action.LOOKUP, "topic"),
            RequestCode.GET_BROKER_CLUSTER_INFO: Route(self.cluster, Action.LOOKUP, ""),
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Route(self.topic_list, Action.LOOKUP, ""),
            RequestCode.GET_TOPICS_BY_CLUSTER: Route(self.topic_list, Action.LOOKUP, ""),
            RequestCode.PUT_KV_CONFIG: Route(self.put_setting, Action.ADMIN, ""),
            RequestCode.GET_KV_CONFIG: Route(self.setting, Action.LOOKUP, ""),
            RequestCode.GET_KVLIST_BY_NAMESPACE: Route(self.settings, Action.LOOKUP, ""),
            RequestCode.DELETE_KV_CONFIG: Route(self.delete_setting, Action.ADMIN, ""),
        }

    def route(self, frame: Frame, connection: Connection) -> None:
        name = ext_as(_OfTopic, frame).topic
        if name == DEFAULT_TOPIC and self._auto_create:
            queues, permissions = (DEFAULT_TOPIC_QUEUES, DEFAULT_TOPIC_QUEUES), READ_WRITE | INHERIT
        else:
            topic: Topic = self._topics.get(name)
            queues, permissions = (topic.read_queues, topic.write_queues), topic.permissions
        body = {
            "brokerDatas": [self._broker_data(connection)],
            "filterServerTable": {},
            "queueDatas": [
                {
                    "brokerName": BROKER,
                    "perm": permissions,
                    "readQueueNums": queues[0],
                    "topicSysFlag": 0,
                    "writeQueueNums": queues[1],
                }
            ],
        }
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(body))

    def _broker_data(self, connection: Connection) -> dict[str, object]:
        return {"brokerAddrs": {"0": self._house.address_for(connection)}, "brokerName": BROKER, "cluster": CLUSTER}

    def cluster(self, frame: Frame, connection: Connection) -> None:
        body = {"brokerAddrTable": {BROKER: self._broker_data(connection)}, "clusterAddrTable": {CLUSTER: [BROKER]}}
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(body))

    def topic_list(self, frame: Frame, connection: Connection) -> None:
        names = [topic.name for topic in self._topics if topic.permissions or not topic.system]
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode({"topicList": names}))

    # --- settings -----------------------------------------------------------------------------------------------------

    def put_setting(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_Setting, frame)
        self._later(frame, connection, self._put(asked.namespace, asked.key, asked.value))

    async def _put(self, space: str, key: str, value: str) -> bytes:
        await self._notes.put(space, key, value)
        return b""

    def setting(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_OfKey, frame)
        value = self._notes.find(asked.namespace, asked.key)
        if value is None:
            why = f"there is no setting {asked.key[:255]!r} in namespace {asked.namespace[:255]!r}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, why)
        connection.reply(frame, ResponseCode.SUCCESS, ext={"value": value})

    def settings(self, frame: Frame, connection: Connection) -> None:
        space = ext_as(_OfSpace, frame).namespace
        found = self._notes.of(space)
        if not found:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, f"there is no setting in namespace {space[:255]!r}")
        connection.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode({"table": found}))

    def delete_setting(self, frame: Frame, connection: Connection) -> None:
        """A tool that deletes a topic asks for this behind it, whether there is one or not."""
        asked = ext_as(_OfKey, frame)
        self._later(frame, connection, self._deleted(asked.namespace, asked.key))

    async def _deleted(self, space: str, key: str) -> bytes:
        await self._notes.delete(space, key)
        return b""
