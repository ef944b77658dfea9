"""An engine: what operators' commands talk to. `opened` finds the one that an address names.

    async with opened("rocketmq://127.0.0.1:9876") as engine:
        for topic in await engine.topics(): ...

Every question is asked anew: nothing is kept between two calls. Errors are `AdminError` and `ClientError`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from penstock.admin import model
from penstock.admin.errors import NoEngine
from penstock.admin.place import Place

DEFAULT = "rocketmq://127.0.0.1:9876"


class Engine(Protocol):
    async def topics(self) -> list[model.Topic]: ...
    async def topic(self, name: str) -> model.TopicDetail: ...
    async def create_topic(self, name: str, queues: int, permissions: str) -> None: ...
    async def alter_topic(
        self, name: str, read_queues: int | None, write_queues: int | None, permissions: str | None
    ) -> None: ...
    async def delete_topic(self, name: str) -> None: ...

    async def groups(self) -> list[model.Group]: ...
    async def group(self, name: str) -> model.GroupDetail: ...
    async def delete_group(self, name: str) -> None: ...

    async def lag(self, group: str, topic: str = "") -> list[model.Lag]: ...

    async def message(self, message_id: str, topic: str = "") -> model.Message | None: ...
    async def messages(self, topic: str, key: str) -> list[model.Message]: ...

    def read(
        self, topic: str, start: Place, queues: Iterable[int], tags: str, sql: str, to_end: bool
    ) -> AsyncGenerator[list[model.Message], None]:
        """Messages as they come, without a group; for ever unless `to_end`."""
        ...

    def consume(
        self, topic: str, group: str, start: Place, tags: str, sql: str, to_end: bool, count: int | None
    ) -> AsyncGenerator[list[model.Message], None]:
        """Messages as a member of a group gets them. What was given is done when more is asked for, and is committed.
        `start` is where a group begins that has no offset yet.
        """
        ...

    def send(self, messages: AsyncIterator[model.Outgoing], queue: int | None) -> AsyncGenerator[model.Receipt, None]:
        """Send them, and tell in their order where they went; those for one queue are stored in it too."""
        ...

    async def plan_reset(self, group: str, topic: str, to: Place, queue: int | None) -> model.ResetPlan:
        """What a reset would do, and nothing is done."""
        ...

    async def reset(self, plan: model.ResetPlan) -> model.ResetResult: ...
    async def reset_state(self, plan: model.ResetPlan, result: model.ResetResult) -> model.ResetResult:
        """The same result, asked for again."""
        ...

    async def kept(self, space: str) -> dict[str, list[str]]:
        """Texts that tools keep with the engine, by their keys in a space; several where parts of it disagree."""
        ...

    async def keep(self, space: str, key: str, value: str) -> None: ...
    async def forget(self, space: str, key: str) -> None: ...


def opened(url: str) -> AbstractAsyncContextManager[Engine]:
    """The engine at an address; NoEngine when there is no such kind."""
    scheme, mark, servers = url.partition("://")
    if not mark:
        scheme, servers = "rocketmq", url
    if scheme != "rocketmq" or not servers.strip("/;, "):
        raise NoEngine(f"{url[:100]!r} is no engine: give rocketmq://host:port, several name servers with ; between")
    from penstock.admin.rocketmq import RocketmqEngine

    return RocketmqEngine(servers)
