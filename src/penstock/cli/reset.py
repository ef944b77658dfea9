"""`penstock reset`: send a group somewhere else in a topic. It shows what would change, queue by queue, and asks; or
keeps that as a request, for somebody else to approve (`request.py`).
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from penstock.cli.shared import (
    DEFAULT_ENGINE,
    EXIT_BAD_NEWS,
    EXIT_DONE,
    As,
    AsJson,
    EngineUrl,
    Yes,
    as_json,
    asked,
    cell,
    operator,
    print_table,
    struct_of,
    sure,
)

if TYPE_CHECKING:
    from penstock.admin.engine import Engine
    from penstock.admin.model import ResetInstance, ResetPlan, ResetResult
    from penstock.admin.place import Place

WaitS = Annotated[
    float,
    typer.Option("--wait-s", min=0, help="How long to wait until all instances of a broadcast group have confirmed."),
]

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

ASK_AGAIN_S = 0.5


@app.command()
def reset(
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="earliest, latest, an offset, 15m (ago; s, m, h, d), 2026-01-31T12:00[Z], or @milliseconds.",
        ),
    ],
    queue: Annotated[int | None, typer.Option("--queue", "-p", min=0, help="Only this queue of each broker.")] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    why: Annotated[
        str | None,
        typer.Option("--request", metavar="WHY", help="Do not do it, but ask for it: somebody else approves it."),
    ] = None,
    name: As = "",
    yes: Yes = False,
    wait_s: WaitS = 15.0,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """Have a group go on somewhere else. Always shows first what would change, then asks, does it and reads back.

    Skipping the backlog is `--to latest`. A group whose offsets the broker keeps is reset there, online or not. The
    instances of a broadcast group keep their own: each is told, and counts as confirmed when it has pulled from the new
    place; all of them are listed. Exits with 1 when it was not wanted, or when something has not come out as shown.
    """
    from penstock.admin.place import place
    from penstock.clock import SystemClock

    where = place(to, SystemClock().now_ms())
    by = operator(name)
    plan = asked(engine, lambda e: e.plan_reset(group, topic, where, queue))
    show_plan(plan, sys.stderr if json else sys.stdout)
    if dry:
        print(as_json({"plan": plan}) if json else "nothing was changed")
    elif why is not None:
        _ask(plan, where, queue, why, by, engine, json)
    else:
        plan.by = by
        want(f"reset {group} on {topic}?", yes)
        show_result(plan, asked(engine, lambda e: done(e, plan, wait_s)), json)


def _ask(plan: "ResetPlan", to: "Place", queue: int | None, why: str, by: str, engine: str, json: bool) -> None:
    from penstock.admin import requests
    from penstock.clock import SystemClock

    request = requests.asked(plan, to, queue, why, by, SystemClock().now_ms())
    asked(engine, lambda e: requests.ask(e, request))
    if json:
        print(as_json({"plan": plan, "request": request}))
    else:
        print(f"nothing was changed: {by} has asked for it. Somebody else says: penstock request approve {request.id}")


def want(question: str, yes: bool) -> None:
    """Ends the command where it is not wanted after all."""
    if not sure(question, yes):
        print("nothing was changed", file=sys.stderr)
        raise typer.Exit(EXIT_BAD_NEWS)


async def done(engine: "Engine", plan: "ResetPlan", wait_s: float) -> "ResetResult":
    """Reset, and wait for the instances of a broadcast group."""
    import asyncio

    result = await engine.reset(plan)
    until = asyncio.get_running_loop().time() + wait_s
    while not result.confirmed and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(ASK_AGAIN_S)
        result = await engine.reset_state(plan, result)
    return result


def show_plan(plan: "ResetPlan", out: TextIO) -> None:
    who = f"{plan.members} online" if plan.members else "nobody online"
    print(cell(f"{plan.group} on {plan.topic} to {plan.to} ({plan.model}, {who}):"), end="\n\n", file=out)
    rows = [
        (row.broker, row.queue, row.min_offset, row.max_offset, row.now, row.target, _words(row.moves))
        for row in plan.rows
    ]
    print_table(("broker", "queue", "first", "next", "now", "would be", ""), rows, out)
    print(file=out)


def _words(moves: int | None) -> str:
    if moves is None:
        return ""
    return f"skips {moves}" if moves > 0 else f"again {-moves}" if moves else "stays"


def show_result(plan: "ResetPlan", result: "ResetResult", json: bool) -> None:
    """It ends the command."""
    if json:
        instances = [struct_of(one, confirmed=one.confirmed) for one in result.instances]
        what = {"plan": plan, "queues": result.queues, "instances": instances, "away": result.away}
        print(as_json({**what, "as_planned": result.as_planned}))
    else:
        _print_result(plan, result)
    raise typer.Exit(EXIT_DONE if result.as_planned else EXIT_BAD_NEWS)


def _print_result(plan: "ResetPlan", result: "ResetResult") -> None:
    broadcast = plan.model == "broadcast"
    rows = [
        (one.broker, one.queue, one.target, one.set_to, "-" if broadcast else cell(one.reads)) for one in result.queues
    ]
    print_table(("broker", "queue", "asked for", "set to", "reads now"), rows)
    print_instances(result.instances, result.away)


def print_instances(instances: "Sequence[ResetInstance]", away: "Sequence[str]") -> None:
    """Of a broadcast group."""
    if instances:
        print()
        rows = [
            (one.client_id, one.address, f"{one.queues_confirmed} of {one.queues}", one.confirmed) for one in instances
        ]
        print_table(("instance", "address", "queues confirmed", "confirmed"), rows)
    if away:
        print("\naway, and not told (they keep their own offsets: reset again when they are back):")
        print("\n".join(f"  {cell(client_id)}" for client_id in away))
