"""S24: a reset that one person asks for and another approves; what became of it is kept."""

import asyncio
import socket

import msgspec
import pytest

from penstock.admin import requests
from penstock.admin.engine import opened
from penstock.admin.errors import NotPossible, NotThere
from penstock.admin.model import ResetDone, ResetInstance, ResetPlan, ResetResult
from penstock.admin.place import Place
from penstock.client.errors import Unreachable
from penstock.core.events import ResetAsked

LATEST = Place("latest")
WEEK_MS = 7 * 24 * 3_600_000
PLAN = ResetPlan("readers", "orders", "latest", "cluster", 0, [], "at once")


def wished(by: str = "ann", why: str = "bad messages", at_ms: int = 1_000) -> requests.Request:
    return requests.asked(PLAN, LATEST, None, why, by, at_ms)


# --- who may ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["ann", "ANN", "  ann "])
def test_s24_nobody_approves_a_request_of_their_own(by):
    with pytest.raises(NotPossible, match="your own"):
        requests.decided(wished(), requests.APPROVED, by, 2_000)


def test_one_s_own_can_be_taken_back():
    taken = requests.decided(wished(), requests.REJECTED, "ann", 2_000)
    assert (taken.state, taken.decided_by, taken.decided_ms) == ("rejected", "ann", 2_000)


@pytest.mark.parametrize("state", [requests.APPROVED, requests.REJECTED])
def test_what_is_decided_stays_decided(state):
    once = requests.decided(wished(), state, "bob", 2_000)
    for again in (requests.APPROVED, requests.REJECTED):
        with pytest.raises(NotPossible, match=f"is {state} already, by bob"):
            requests.decided(once, again, "cleo", 3_000)


def test_a_request_that_nobody_looked_at_for_a_week_is_asked_for_anew():
    requests.decided(wished(), requests.APPROVED, "bob", 1_000 + WEEK_MS)
    with pytest.raises(NotPossible, match="more than a week old"):
        requests.decided(wished(), requests.APPROVED, "bob", 1_001 + WEEK_MS)
    requests.decided(wished(), requests.REJECTED, "bob", 1_001 + WEEK_MS)


@pytest.mark.parametrize("by", ["", "  ", "x" * 65, "a\x1bb"])
def test_a_name_that_is_none(by):
    with pytest.raises(NotPossible, match="--as NAME"):
        wished(by)


def test_a_request_says_why():
    for why in (" ", "x" * 301):
        with pytest.raises(NotPossible, match="say why"):
            wished(why=why)


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_large_reset_is_short_and_begins_with_what_went_wrong():
    queues = [ResetDone("broker", queue, 9, 9 if queue < 2_000 else 8, None) for queue in range(2_001)]
    instances = [ResetInstance(f"10.0.0.{n}@app", f"10.0.0.{n}:4711", 4, 4) for n in range(500)]
    instances += [ResetInstance("10.0.9.9@app", "10.0.9.9:4711", 0, 4)]
    outcome = requests.outcome_of(ResetResult(queues, instances))
    text = requests.note_of(msgspec.structs.replace(wished(), state=requests.DONE, outcome=outcome))
    assert len(text) <= requests.NOTE_CHARS_MAX
    kept = msgspec.json.decode(text, type=requests.Request).outcome
    assert (kept.queues_count, kept.instances_count) == (2_001, 501)
    assert (kept.queues[0].queue, kept.instances[0].client_id) == (2_000, "10.0.9.9@app")
    assert not kept.as_planned
    assert len(kept.queues) > 50


def test_the_oldest_that_are_decided_make_room():
    known = [msgspec.structs.replace(wished(), id=str(n)) for n in range(requests.KEPT_MAX)]
    with pytest.raises(NotPossible, match="reject some first"):
        requests.surplus(known)
    known[3].state, known[7].state = requests.DONE, requests.REJECTED
    assert requests.surplus(known) == [known[3]]
    assert requests.surplus(known[1:]) == []


# --- with an engine --------------------------------------------------------------------------------------------------


async def ask(engine, why="bad messages") -> requests.Request:
    plan = await engine.plan_reset("readers", "orders", LATEST, None)
    request = requests.asked(plan, LATEST, None, why, "ann", 1_000)
    await requests.ask(engine, request)
    return request


async def committed(engine) -> dict[int, int]:
    return {line.queue: line.committed for line in await engine.lag("readers")}


async def test_s24_from_the_request_to_the_record(penstock, engine, orders, commit):
    told = []
    penstock.server.broker.bus.listen(told.append)
    await commit(orders, 4)
    request = await ask(engine)
    assert await requests.known(engine) == ([request], [])
    assert await committed(engine) == {0: 4, 1: 0}  # nothing was changed

    approved = await requests.decide(engine, request.id, requests.APPROVED, "bob", 2_000)
    plan = await engine.plan_reset("readers", "orders", LATEST, None)
    plan.by = approved.line()
    result, lost = await requests.carried_out(engine, approved, engine.reset(plan))

    assert lost == ""
    assert all(one.as_planned for one in result.queues)
    assert await committed(engine) == {0: 10, 1: 10}
    kept = await requests.find(engine, request.id)
    assert (kept.state, kept.asked_by, kept.decided_by, kept.decided_ms) == ("done", "ann", "bob", 2_000)
    assert [(one.queue, one.set_to) for one in kept.outcome.queues] == [(0, 10), (1, 10)]
    assert kept.outcome.as_planned
    (event,) = [event for event in told if isinstance(event, ResetAsked)]
    assert event.by == f"ann, approved by bob (request {request.id})"


async def test_s24_what_became_of_each_instance_is_kept(engine, orders, join):
    first = await join(broadcast=True, offsets={orders: 4})
    await join(broadcast=True, offsets={orders: 6})
    request = await ask(engine)
    approved = await requests.decide(engine, request.id, requests.APPROVED, "bob", 2_000)
    plan = await engine.plan_reset("readers", "orders", LATEST, 0)

    async def one_confirms():
        result = await engine.reset(plan)
        assert await first.pull(orders, 4) == 10  # told to go there
        await first.pull(orders, 10)
        return await engine.reset_state(plan, result)

    await requests.carried_out(engine, approved, one_confirms())
    kept = (await requests.find(engine, request.id)).outcome
    assert kept.instances[1].client_id == first.instance.client_id
    assert [one.confirmed for one in kept.instances] == [False, True]
    assert not kept.as_planned


async def test_a_reset_that_failed_is_told_and_kept(engine, orders, commit):
    await commit(orders, 4)
    request = await ask(engine)
    approved = await requests.decide(engine, request.id, requests.APPROVED, "bob", 2_000)

    async def fails():
        raise Unreachable("10.0.0.1:10911", "it is gone")

    with pytest.raises(Unreachable):
        await requests.carried_out(engine, approved, fails())
    kept = await requests.find(engine, request.id)
    assert (kept.state, "10.0.0.1:10911" in kept.outcome.error, kept.outcome.as_planned) == ("failed", True, False)


async def test_of_two_who_decide_at_one_moment_one_is_told(engine, orders, commit):
    await commit(orders, 4)
    request = await ask(engine)
    both = await asyncio.gather(
        requests.decide(engine, request.id, requests.APPROVED, "bob", 2_000),
        requests.decide(engine, request.id, requests.REJECTED, "cleo", 2_000),
        return_exceptions=True,
    )
    (refused,) = [one for one in both if isinstance(one, NotPossible)]
    (winner,) = [one for one in both if isinstance(one, requests.Request)]
    assert await requests.find(engine, request.id) == winner
    assert f"by {winner.decided_by}" in str(refused)


async def test_a_request_that_is_not_there(engine):
    assert await requests.known(engine) == ([], [])
    with pytest.raises(NotThere, match="no request 'a1b2c3'"):
        await requests.find(engine, "a1b2c3")


@pytest.mark.parametrize(
    "odd",
    [
        "not ours",
        "{}",
        "[" * 5_000,
        {"id": "other"},
        {"state": "s"},
        {"to": {"kind": "x"}},
        {"to": {"kind": "time", "value": 9_999_999_999_999_999}},
        {"asked_ms": 1 << 60},
    ],
    ids=str,
)
async def test_a_setting_of_somebody_else_among_them_is_named_and_can_be_forgotten(engine, orders, commit, odd):
    await commit(orders, 4)
    request = await ask(engine)
    whole = {**msgspec.to_builtins(request), "id": "odd"}
    await engine.keep(requests.SPACE, "odd", odd if isinstance(odd, str) else msgspec.json.encode(whole | odd).decode())
    assert await requests.known(engine) == ([request], ["odd"])
    with pytest.raises(NotPossible, match="no request of ours"):
        await requests.decide(engine, "odd", requests.APPROVED, "bob", 2_000)
    await requests.reject(engine, "odd", "bob", 2_000)
    assert await requests.known(engine) == ([request], [])


async def test_where_name_servers_disagree_what_has_come_furthest_counts(engine, orders, commit, monkeypatch):
    await commit(orders, 4)
    request = await ask(engine)
    stale = requests.note_of(request)
    await requests.decide(engine, request.id, requests.REJECTED, "bob", 2_000)
    here = (await engine.kept(requests.SPACE))[request.id]

    async def kept(space):
        return {request.id: [stale, *here]}

    monkeypatch.setattr(engine, "kept", kept)
    assert (await requests.find(engine, request.id)).state == "rejected"


async def test_a_name_server_that_is_away_keeps_nobody_from_asking(penstock, orders, commit):
    await commit(orders, 4)
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"127.0.0.1:{server.getsockname()[1]}"
    async with opened(f"rocketmq://{nobody};{penstock.addresses['namesrv']}") as engine:
        request = await ask(engine)
        await requests.decide(engine, request.id, requests.APPROVED, "bob", 2_000)
        assert (await requests.find(engine, request.id)).state == "approved"
    async with opened(f"rocketmq://{nobody}") as engine:
        with pytest.raises(Unreachable):
            await requests.known(engine)


async def test_a_reset_that_was_done_is_told_also_where_that_cannot_be_kept(engine, orders, commit, monkeypatch):
    await commit(orders, 4)
    request = await ask(engine)
    approved = await requests.decide(engine, request.id, requests.APPROVED, "bob", 2_000)
    plan = await engine.plan_reset("readers", "orders", LATEST, None)

    async def keep(*what):
        raise Unreachable("10.0.0.1:9876", "it is gone")

    monkeypatch.setattr(engine, "keep", keep)
    result, lost = await requests.carried_out(engine, approved, engine.reset(plan))
    assert (result.as_planned, "it is gone" in lost) == (True, True)


async def test_old_ones_are_forgotten_when_there_are_too_many(engine, orders, commit, monkeypatch):
    monkeypatch.setattr(requests, "KEPT_MAX", 2)
    await commit(orders, 4)
    first = await ask(engine, "first")
    await requests.decide(engine, first.id, requests.REJECTED, "bob", 2_000)
    await ask(engine, "second")
    await ask(engine, "third")
    assert [one.why for one in (await requests.known(engine)).requests] == ["second", "third"]
