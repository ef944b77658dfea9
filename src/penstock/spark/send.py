"""Plain sends to a RocketMQ cluster, as a task does them: batches by queue, several under way at each broker.

At least once: what a task has sent stays sent when the task is tried again, and so does what was sent again because its
answer got lost. Then the messages of a queue may also come in another order.
"""

from penstock.client.routes import MessageQueue
from penstock.client.sending import STORED
from penstock.spark.rows import DELAY, Messages, Rows, data_of, offsets_of
from penstock.spark.targets import Target
from penstock.spark.window import Window
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode
from penstock.wire.rocketmq.requests import DEFAULT_TOPIC

GROUP = "penstock-spark"
UNDER_WAY = 8
BATCH_BYTES = 256 * 1024  # brokers take 4 MB, and pass them on in pieces of about this size
TIMEOUT_MS = 30_000


class Sender:
    """What one task sends, to all brokers."""

    def __init__(self) -> None:
        self._windows: dict[str, Window] = {}

    def add(self, target: Target, messages: Messages, born_ms: int) -> None:
        """Messages of one topic, sorted by queue; their `queue` is the place in the target's list."""
        for part in messages.cut(BATCH_BYTES):
            queue = target.queues[int(part.queue[0])]
            ext = {**_fields(queue, born_ms), "m": "true"}
            self._to(target, queue).add(RequestCode.SEND_BATCH_MESSAGE, ext, bytes(part.data))

    def add_delayed(self, target: Target, rows: Rows, born_ms: int) -> None:
        """One by one, since RocketMQ takes no timers in batches."""
        view, borders = data_of(rows.body), offsets_of(rows.body).tolist()
        properties = _texts(rows)
        delays = rows.delay_ms.tolist() if rows.delay_ms is not None else []
        for place, (delay_ms, text) in enumerate(zip(delays, properties, strict=True)):
            queue = target.queues[int(rows.queue[place])]
            timer = f"{DELAY}{props.NAME_END}{delay_ms}{props.VALUE_END}"
            ext = {**_fields(queue, born_ms), "i": text + timer}
            body = bytes(view[borders[place] : borders[place + 1]])
            self._to(target, queue).add(RequestCode.SEND_MESSAGE_V2, ext, body)

    def _to(self, target: Target, queue: MessageQueue) -> Window:
        address = target.addresses[queue.broker]
        if address not in self._windows:
            self._windows[address] = Window(address, UNDER_WAY, TIMEOUT_MS, STORED, ordered=False)
        return self._windows[address]

    def finish(self) -> None:
        for window in self._windows.values():
            window.drain()

    def close(self) -> None:
        for window in self._windows.values():
            window.close()


def _fields(queue: MessageQueue, born_ms: int) -> dict[str, str]:
    return {
        "a": GROUP,
        "b": queue.topic,
        "c": DEFAULT_TOPIC,
        "d": "4",
        "e": str(queue.queue),
        "f": "0",
        "g": str(born_ms),
        "h": "0",
        "i": "",
        "j": "0",
        "k": "false",
        "m": "false",
    }


def _texts(rows: Rows) -> list[str]:
    """The properties of each row."""
    texts = [""] * len(rows)
    for name, column in ((props.KEYS, rows.key), (props.TAGS, rows.tags)):
        if column is not None:
            for place, value in enumerate(column.to_pylist()):
                if value:
                    texts[place] += f"{name}{props.NAME_END}{value.decode()}{props.VALUE_END}"
    if rows.properties is not None:
        texts = [text + more.decode() for text, more in zip(texts, rows.properties.to_pylist(), strict=True)]
    return texts
