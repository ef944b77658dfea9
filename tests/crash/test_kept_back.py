"""What is kept back survives SIGKILL and happens once: delay levels, timers, half messages and messages sent back.

A real broker process is killed at random moments while clients send such messages, again and again on the same folder.
The journal is kept here. At the end everything that was acknowledged must have happened once, what was not acknowledged
at most once, and what was rolled back never. A failing run prints its seed; PENSTOCK_CRASH_SEED begins there.
"""

import asyncio
import contextlib
import json
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest
from tests.gateway.rocketmq.conftest import Client

from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode, SysFlag
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import message_in

ROUNDS = max(3, int(os.environ.get("PENSTOCK_CRASH_ROUNDS", "20")) // 5)
SEED = int(os.environ.get("PENSTOCK_CRASH_SEED", "1"))
COMMIT, ROLLBACK = 8, 12
DELAY_MS_MAX = 1_500
QUIET_MS = DELAY_MS_MAX + 1_500  # nothing is due later than this, and a half message is asked about sooner
SETTINGS = {
    "PENSTOCK_ROCKETMQ_TRANSACTION_TIMEOUT_MS": "300",
    "PENSTOCK_ROCKETMQ_TRANSACTION_CHECK_INTERVAL_MS": "500",
    "PENSTOCK_ROCKETMQ_TRANSACTION_CHECKS_MAX": "1000",
}
TOPICS = ("delayed", "timed", "paid", "%RETRY%readers")


class Journal:
    """Bodies by topic. `certain` were acknowledged; `possible` were asked for."""

    def __init__(self) -> None:
        self.certain: dict[str, set[bytes]] = {topic: set() for topic in TOPICS}
        self.possible: dict[str, set[bytes]] = {topic: set() for topic in TOPICS}

    def complaints(self, found: dict[str, list[bytes]]) -> list[str]:
        wrong = []
        for topic in TOPICS:
            times = Counter(found[topic])
            wrong += [f"{topic}: {body!r} did not happen" for body in self.certain[topic] if not times[body]]
            wrong += [f"{topic}: {body!r} happened {n} times" for body, n in times.items() if n > 1]
            wrong += [f"{topic}: nobody asked for {body!r}" for body in times.keys() - self.possible[topic]]
        return wrong


class Load:
    """Clients of one life of the broker. Every body is another; its first word says what becomes of it."""

    def __init__(self, client: Client, journal: Journal, chance: random.Random, name: str) -> None:
        self._client, self._journal, self._chance, self._name = client, journal, chance, name
        self._number = 0

    def _body(self, kind: str) -> bytes:
        self._number += 1
        return f"{kind} {self._name}-{self._number}".encode()

    async def _sent(self, topic: str, body: bytes, properties: str) -> None:
        self._journal.possible[topic].add(body)
        assert (await self._client.send(topic, body, 0, properties)).code == ResponseCode.SUCCESS
        self._journal.certain[topic].add(body)

    async def delayed(self) -> None:
        await self._sent("delayed", self._body("level"), "DELAY\x011\x02")

    async def timed(self) -> None:
        await self._sent(
            "timed", self._body("timer"), f"TIMER_DELAY_MS\x01{self._chance.randrange(1, DELAY_MS_MAX)}\x02"
        )

    async def sent_back(self) -> None:
        body = self._body("refused")
        sent = await self._client.send("orders", body)
        self._journal.possible["%RETRY%readers"].add(body)
        fields = {"offset": physical(sent), "group": "readers", "delayLevel": 1}
        answer = await self._client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        assert answer.code == ResponseCode.SUCCESS
        self._journal.certain["%RETRY%readers"].add(body)

    async def transaction(self) -> None:
        kind = self._chance.choice(("commit", "rollback", "open"))
        body = self._body(kind)
        if kind != "rollback":
            self._journal.possible["paid"].add(body)
        properties = "TRAN_MSG\x01true\x02PGROUP\x01payers\x02UNIQ_KEY\x01k\x02"
        sent = await self._client.send("paid", body, 0, properties, f=SysFlag.PREPARED)
        assert sent.code == ResponseCode.SUCCESS
        if kind != "rollback":
            self._journal.certain["paid"].add(body)
        if kind != "open":
            answer = await end(self._client, int(sent.ext["queueOffset"]), physical(sent), body)
            assert answer.code == ResponseCode.SUCCESS

    async def run(self) -> None:
        kinds: list[Callable[[], Coroutine[None, None, None]]] = [
            self.delayed, self.timed, self.sent_back, self.transaction,
        ]  # fmt: skip
        while True:
            await asyncio.gather(*(self._chance.choice(kinds)() for _ in range(8)))


def physical(sent: Frame) -> int:
    return int(sent.ext["msgId"][16:], 16)


def end(client: Client, offset: int, commit_log_offset: int, body: bytes) -> "asyncio.Future[Frame]":
    how = ROLLBACK if body.startswith(b"rollback") else COMMIT
    fields = {"producerGroup": "payers", "tranStateTableOffset": offset, "commitLogOffset": commit_log_offset}
    return client.ask(RequestCode.END_TRANSACTION, {**fields, "commitOrRollback": how})


async def answer_questions(client: Client) -> None:
    """As a producer does that is asked what became of its transactions."""
    body = json.dumps({"clientID": "p@1", "producerDataSet": [{"groupName": "payers"}]}).encode()
    await client.ask(RequestCode.HEART_BEAT, {}, body)
    while True:
        asked = await client.pushed.get()
        if asked.code == RequestCode.CHECK_TRANSACTION_STATE:
            message = message_in(asked.body)
            end(client, message.offset, message.physical_offset, message.body)


@contextlib.asynccontextmanager
async def broker(folder: Path) -> AsyncIterator[str]:
    """A broker process, killed at the end; its address."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    ports = [f"--{name}-port=0" for name in ("namesrv", "broker", "pulsar", "http")]
    words = ["serve", f"--data={folder / 'data'}", f"--ready-file={ready}", "--log-level=error", *ports]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")} | SETTINGS
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "penstock", *words, env=variables)
    try:
        while not ready.exists():
            assert process.returncode is None, "the broker did not start"
            await asyncio.sleep(0.02)
        yield str(json.loads(ready.read_text(encoding="utf-8"))["broker"])
    finally:
        process.kill()
        await process.wait()


async def one_life(folder: Path, journal: Journal, chance: random.Random, name: str) -> None:
    async with broker(folder) as address:
        clients = [await Client.to(address) for _ in range(3)]
        loads = [Load(client, journal, chance, f"{name}{number}") for number, client in enumerate(clients[1:])]
        tasks = [
            asyncio.create_task(answer_questions(clients[0])),
            *(asyncio.create_task(load.run()) for load in loads),
        ]
        before = sum(map(len, journal.certain.values()))
        while sum(map(len, journal.certain.values())) == before:
            await asyncio.sleep(0.01)
        await asyncio.sleep(chance.uniform(0.1, 1.5))  # the random moment
    failed = [task.exception() for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    for client in clients:
        with contextlib.suppress(ConnectionError):  # the other side was killed
            await client.close()
    assert not failed, failed


async def all_there_is(client: Client, topic: str) -> list[bytes]:
    """Everything in a queue, until it has been quiet for so long that nothing can be due."""
    found: list[bytes] = []
    offset, ext = 0, {"sysFlag": PullFlag.SUBSCRIPTION | PullFlag.SUSPEND, "subscription": "*"}
    while True:
        answer = await client.pull("nobody", topic, 0, offset, wait_ms=QUIET_MS, **ext)
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return found
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        at = 0
        while at < len(answer.body):
            message = message_in(answer.body, at)
            found.append(message.body)
            at += message.length
        offset = int(answer.ext["nextBeginOffset"])


@pytest.mark.timeout(60 + 15 * ROUNDS)
async def test_what_is_kept_back_survives_kills_and_happens_once(tmp_path: Path) -> None:
    journal, chance = Journal(), random.Random(SEED)
    for number in range(ROUNDS):
        await one_life(tmp_path, journal, chance, f"{number}-")
    async with broker(tmp_path) as address:
        answering, client = await Client.to(address), await Client.to(address)
        task = asyncio.create_task(answer_questions(answering))
        found = dict(zip(TOPICS, await asyncio.gather(*(all_there_is(client, topic) for topic in TOPICS)), strict=True))
        task.cancel()
        await answering.close()
        await client.close()
    assert all(len(journal.certain[topic]) > 10 * ROUNDS for topic in TOPICS), "too little was sent to mean anything"
    wrong = journal.complaints(found)
    assert not wrong, f"seed {SEED}: {len(wrong)} complaints, such as {wrong[:5]}"


def test_the_comparison_finds_what_is_missing_doubled_or_not_wanted() -> None:
    journal = Journal()
    journal.certain["timed"] = {b"1", b"2"}
    journal.possible["timed"] = {b"1", b"2", b"3"}
    found = {topic: list[bytes]() for topic in TOPICS}
    found["timed"] = [b"2", b"2", b"4"]
    told = " ".join(journal.complaints(found))
    assert "b'1' did not happen" in told
    assert "b'2' happened 2 times" in told
    assert "nobody asked for b'4'" in told
