"""What a name server is asked: where a topic is, which brokers there are, which topics. The one broker is this one."""

import msgspec

from penstock.core.topics import Topic, Topics
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.house import BROKER, CLUSTER, DEFAULT_TOPIC_QUEUES, INHERIT, READ_WRITE, House
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as
from penstock.model import Action
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.requests import DEFAULT_TOPIC


class _OfTopic(msgspec.Struct):
    topic: str


class Names:
    def __init__(self, topics: Topics, house: House, auto_create: bool) -> None:
        self._topics, self._house, self._auto_create = topics, house, auto_create

    def routes(self) -> Routes:
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: Route(self.route, Action.LOOKUP, "topic"),
            RequestCode.GET_BROKER_CLUSTER_INFO: Route(self.cluster, Action.LOOKUP, ""),
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Route(self.topic_list, Action.LOOKUP, ""),
            RequestCode.GET_TOPICS_BY_CLUSTER: Route(self.topic_list, Action.LOOKUP, ""),
            RequestCode.GET_KV_CONFIG: Route(self.no_setting, Action.LOOKUP, ""),
            RequestCode.DELETE_KV_CONFIG: Route(self.nothing_to_delete, Action.ADMIN, ""),
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

    def no_setting(self, frame: Frame, connection: Connection) -> None:
        raise Refused(ResponseCode.QUERY_NOT_FOUND, "this broker keeps no settings in its name server")

    def nothing_to_delete(self, frame: Frame, connection: Connection) -> None:
        """A tool that deletes a topic asks for this behind it."""
        connection.reply(frame, ResponseCode.SUCCESS)
