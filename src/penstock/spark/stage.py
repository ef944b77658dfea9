"""Staging on a Penstock, as a task does it, and the commit, as the driver does. See `wire/rocketmq/staged.py`."""

from collections.abc import Sequence

import msgspec

from penstock.client.errors import Refused, refusal
from penstock.spark.rows import Packed
from penstock.spark.targets import ask_names
from penstock.spark.window import Window
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.staged import VERSION, Commit, columns_of

UNDER_WAY = 4
PART_BYTES = 1 << 20
STAGE_TIMEOUT_MS = 60_000
COMMIT_TIMEOUT_MS = 600_000  # a large one takes its time


def penstock_at(service: str) -> str | None:
    """Where to stage: everything is asked at the address that said that it can. None when the service is a RocketMQ,
    which knows nothing of it.
    """
    answer, address = ask_names(service, RequestCode.GET_STAGING, {})
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return None
    if answer.code != ResponseCode.SUCCESS:
        raise refusal(answer, address)
    ext = answer.ext
    if ext.get("version") != str(VERSION):
        why = (
            f"it stages by version {ext.get('version')}, this is version {VERSION}: use the same release on both sides"
        )
        raise Refused(answer.code, why, address)
    return address


class Stager:
    """One stage, which one task fills."""

    def __init__(self, address: str, name: str) -> None:
        self.name, self.parts = name, 0
        self._window = Window(address, UNDER_WAY, STAGE_TIMEOUT_MS)

    def add(self, topic: str, queues: int, messages: Packed, born_ms: int, delayed: bool) -> None:
        """`queues` is how many the topic gets if this creates it."""
        for part in messages.cut(PART_BYTES):
            ext = {"topic": topic, "stage": self.name, "part": str(self.parts), "queues": str(queues)}
            if delayed:
                ext["delayed"] = "true"
            body = (columns_of(born_ms, part.columns), part.bodies, part.properties)
            self._window.add(RequestCode.STAGE_MESSAGES, ext, *body)
            self.parts += 1

    def finish(self) -> None:
        """All of it has been taken."""
        self._window.drain()

    def close(self) -> None:
        self._window.close()


def commit(address: str, key: str, stages: Sequence[str], others: str) -> bool:
    """Publish; False when that had been done before. The answer may get lost: asked again, it is the same."""
    window = Window(address, 1, COMMIT_TIMEOUT_MS)
    try:
        body = msgspec.json.encode(Commit(key, list(stages), others))
        return window.ask(RequestCode.COMMIT_STAGES, {}, body).ext.get("published") == "true"
    finally:
        window.close()


def drop(address: str, prefix: str) -> None:
    """Forget stages whose names begin so."""
    window = Window(address, 1, STAGE_TIMEOUT_MS)
    try:
        window.ask(RequestCode.DROP_STAGES, {"stages": prefix})
    finally:
        window.close()
