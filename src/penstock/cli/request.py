"""`penstock request`: resets that somebody has asked for, and somebody else approves or rejects."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.reset import WaitS, done, print_instances, show_plan, show_result, want
from penstock.cli.shared import (
    DEFAULT_ENGINE,
    As,
    AsJson,
    EngineUrl,
    Yes,
    as_json,
    asked,
    cell,
    moment,
    new_app,
    operator,
    print_table,
    struct_of,
)

if TYPE_CHECKING:
    from penstock.admin.engine import Engine
    from penstock.admin.model import ResetPlan, ResetResult
    from penstock.admin.requests import Request

app = new_app("Resets that take two: asked for with `penstock reset --request WHY`, approved by somebody else.")

Id = Annotated[str, typer.Argument(metavar="ID")]


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Those that are decided, too.")] = False,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """Requests that are open, the oldest first; with --all what has become of the others, too."""
    from penstock.admin import requests

    known = asked(engine, requests.known)
    for key in known.unreadable:
        print(cell(f"{key!r} is no request: penstock request reject forgets it"), file=sys.stderr)
    found = [one for one in known.requests if every or one.state == requests.OPEN]
    if json:
        print(as_json(found))
        return
    print_table(("id", "state", "group", "topic", "to", "asked for", "by", "decided by", "why"), list(map(_row, found)))


def _row(one: "Request") -> tuple[str, ...]:
    from penstock.clock import SystemClock

    state = "too late" if one.is_late(SystemClock().now_ms()) else one.state
    what = (one.id, state, one.group, one.topic, str(one.to))
    return (*what, moment(one.asked_ms), one.asked_by, one.decided_by or "-", one.why)


@app.command()
def show(id: Id, engine: EngineUrl = DEFAULT_ENGINE, json: AsJson = False) -> None:
    """One request: who asked for it and why, who decided, and what became of it, by queue and by instance."""
    from penstock.admin import requests

    found = asked(engine, lambda e: requests.find(e, id))
    if json:
        outcome = struct_of(found.outcome, as_planned=found.outcome.as_planned) if found.outcome else None
        print(as_json(struct_of(found, outcome=outcome)))
    else:
        _print(found)


def _print(request: "Request") -> None:
    from penstock.admin.requests import OPEN, REJECTED

    where = "all queues" if request.queue is None else f"queue {request.queue}"
    print(cell(f"{request.id}: reset {request.group} on {request.topic}, {where}, to {request.to}"))
    print(cell(f"asked for by {request.asked_by} at {moment(request.asked_ms)}: {request.why}"))
    if request.state == OPEN:
        print("nobody has decided yet")
        return
    decision = "rejected" if request.state == REJECTED else "approved"
    print(cell(f"{decision} by {request.decided_by} at {moment(request.decided_ms)}"))
    _print_outcome(request)


def _print_outcome(request: "Request") -> None:
    from penstock.admin.requests import APPROVED

    outcome = request.outcome
    if outcome is None:
        if request.state == APPROVED:
            print("it was begun, and nobody has said how it ended: see penstock lag, then ask for it anew")
        return
    if outcome.error:
        print(cell(f"it did not come to its end: {outcome.error}"))
        print("where the group is now, penstock lag tells")
        return
    print("done as planned" if outcome.as_planned else "done, and not all as planned:")
    rows = [(one.broker, one.queue, one.target, one.set_to) for one in outcome.queues]
    print_table(("broker", "queue", "asked for", "set to"), rows)
    _print_left_out("queues", outcome.queues_count - len(outcome.queues))
    print_instances(outcome.instances, outcome.away)
    _print_left_out("instances", outcome.instances_count - len(outcome.instances))


def _print_left_out(what: str, count: int) -> None:
    if count:
        print(f"and {count} {what} more, all as planned or too many to keep")


@app.command()
def approve(
    id: Id,
    name: As = "",
    yes: Yes = False,
    wait_s: WaitS = 15.0,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """Have a request of somebody else carried out. Shows first what would change now, then asks, does it, reads back,
    and keeps what has become of it.
    """
    from penstock.admin import requests
    from penstock.clock import SystemClock

    by, out = operator(name), sys.stderr if json else sys.stdout
    request, plan = asked(engine, lambda e: _planned(e, id, by))
    print(cell(f"{request.asked_by} asks for this, {moment(request.asked_ms)}: {request.why}"), end="\n\n", file=out)
    show_plan(plan, out)
    want(f"reset {request.group} on {request.topic}, as {by}?", yes)

    async def carry_out(engine: "Engine") -> "tuple[ResetResult, str]":
        taken = await requests.decide(engine, id, requests.APPROVED, by, SystemClock().now_ms())
        plan.by = taken.line()
        return await requests.carried_out(engine, taken, done(engine, plan, wait_s))

    result, lost = asked(engine, carry_out)
    if lost:
        print(cell(f"penstock: it was done, but what became of it could not be kept: {lost}"), file=sys.stderr)
    show_result(plan, result, json)


async def _planned(engine: "Engine", id: str, by: str) -> "tuple[Request, ResetPlan]":
    """What is known to be refused is refused before anybody is asked anything."""
    from penstock.admin import requests
    from penstock.clock import SystemClock

    request = await requests.find(engine, id)
    requests.decided(request, requests.APPROVED, by, SystemClock().now_ms())
    return request, await engine.plan_reset(request.group, request.topic, request.to, request.queue)


@app.command()
def reject(id: Id, name: As = "", engine: EngineUrl = DEFAULT_ENGINE, json: AsJson = False) -> None:
    """Have a request not carried out; one's own can be taken back like this."""
    from penstock.admin import requests
    from penstock.clock import SystemClock

    by = operator(name)
    asked(engine, lambda e: requests.reject(e, id, by, SystemClock().now_ms()))
    print(as_json({"rejected": id}) if json else cell(f"{id} is rejected"))
