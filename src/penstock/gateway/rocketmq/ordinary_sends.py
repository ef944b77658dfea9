"""Sends about which there is nothing to decide one by one: all of a read with one look at their topic, one append and
one piece of bytes for all answers. What that is, `wire.rocketmq.sends` says; everything else, and whatever has to be
refused, goes the way of every request (`routes`, `produce`), which is also what these lines have to agree with.
"""

from penstock.core.authorizer import Authorizer
from penstock.core.publish import Publisher
from penstock.core.topics import Topic, Topics
from penstock.core.traffic import Traffic
from penstock.errors import PenstockError
from penstock.gateway.rocketmq.connection import VERSION, Connection, Model
from penstock.gateway.rocketmq.house import House
from penstock.gateway.rocketmq.produce import ADDED, ANSWER, may_send
from penstock.gateway.rocketmq.routes import code_of
from penstock.model import Action
from penstock.wire.rocketmq.batch import run_of
from penstock.wire.rocketmq.codes import Flag, ResponseCode
from penstock.wire.rocketmq.frame import JSON, pack
from penstock.wire.rocketmq.heads import v6_flags
from penstock.wire.rocketmq.record import Record, length_of
from penstock.wire.rocketmq.sends import ASKED, Asked, Parts, Stored, answers, front, records

_ADDED = ADDED.encode()


def _parts(answer: bytes) -> Parts:
    begin, before_queue, before_offset, before_opaque, end = answer.replace(b"%b", b"%d").split(b"%d")
    return begin, before_queue, before_offset, before_opaque, end


_PARTS = _parts(ANSWER)


class OrdinarySends:
    def __init__(
        self, topics: Topics, publisher: Publisher, house: House, traffic: Traffic, authorizer: Authorizer
    ) -> None:
        self._topics, self._publisher, self._house = topics, publisher, house
        self._traffic, self._authorizer = traffic, authorizer

    def take(self, view: memoryview, end: int, connection: Connection) -> int:
        """Store the sends at the front of a read; each is answered when they are durable. How many bytes they were: 0
        when they are to be served, or refused, one by one.
        """
        found = front(view, end, _ADDED, self._publisher.body_bytes_max)
        if found is None:
            return 0
        name, producer, asked, properties, used = found
        topic = self._topics.find(name)
        if topic is None or not may_send(topic):
            return 0
        model = connection.model
        if model is None or model.topic != name:
            model = connection.model = self._model(topic, connection)
        placed = records(
            asked, properties, view, model.record, model.fixed_bytes, topic.queues, topic.queue_count, run_of
        )
        return used if placed and self._publish(producer, asked, *placed, model, connection) else 0

    def _publish(
        self,
        producer: str,
        asked: Asked,
        stored: list[Stored],
        messages: int,
        size_bytes: int,
        model: Model,
        connection: Connection,
    ) -> bool:
        """False when nothing is stored: who is refused, and why, is found out one by one."""

        def done(error: Exception | None) -> None:
            if error is None:
                connection.answer_together(answers(asked, stored, model.id_prefix, _PARTS), len(stored))
                self._traffic.sent(producer, model.topic, messages, size_bytes)
            else:
                connection.answer_together(_refusals(asked, error), len(stored))

        connection.took(len(stored))
        try:
            self._authorizer.check(connection.who, Action.PRODUCE, model.topic)
            self._publisher.publish(stored, done, self._publisher.entry_bytes_max)  # bodies have been looked at
        except PenstockError:
            connection.took(-len(stored))
            return False
        return True

    def _model(self, topic: Topic, connection: Connection) -> Model:
        store_host, born_host = self._house.store_host_for(connection), connection.born_host
        record = Record(
            queue=0,
            length=0,
            topic=topic.name.encode(),
            sys_flag=v6_flags(born_host, store_host),
            born_host=born_host,
            store_host=store_host,
        )
        return Model(topic.name, record, length_of(record), store_host.hex().upper().encode())


def _refusals(asked: Asked, error: Exception) -> bytes:
    """What those are told whose messages can never be durable."""
    code = code_of(error) if isinstance(error, PenstockError) else ResponseCode.SYSTEM_ERROR
    opaques = [opaque for opaque, oneway, *_ in ASKED.iter_unpack(asked) if not oneway]
    return b"".join(pack(code, opaque, Flag.RESPONSE, VERSION, JSON, str(error)) for opaque in opaques)
