"""`penstock reset`: send a group somewhere else in a topic. It shows what would change, queue by queue, and asks."""

import sys
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from penstock.cli.shared import (
    DEFAULT_ENGINE,
    EXIT_BAD_NEWS,
    EXIT_DONE,
    AsJson,
    EngineUrl,
    Yes,
    as_json,
    asked,
    cell,
    print_table,
    struct_of,
    sure,
)

if TYPE_CHECKING:
    from penstock.admin.engine import Engine
    from penstock.admin.model import ResetPlan, ResetResult

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
    yes: Yes = False,
    wait_s: Annotated[
        float, typer.Option(min=0, help="How long to wait until all instances of a broadcast group have confirmed.")
    ] = 15.0,
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
    plan = asked(engine, lambda e: e.plan_reset(group, topic, where, queue))
    _show_plan(plan, sys.stderr if json else sys.stdout)
    if dry:
        print(as_json({"plan": plan}) if json else "nothing was changed")
        return
    if not sure(f"reset {group} on {topic}?", yes):
        print("nothing was changed", file=sys.stderr)
        raise typer.Exit(EXIT_BAD_NEWS)
    result = asked(engine, lambda e: _done(e, plan, wait_s))
    well = all(one.as_planned for one in result.queues) and all(one.confirmed for one in result.instances)
    if json:
        instances = [struct_of(one, confirmed=one.confirmed) for one in result.instances]
        print(as_json({"plan": plan, "queues": result.queues, "instances": instances, "as_planned": well}))
    else:
        _show_result(result)
    raise typer.Exit(EXIT_DONE if well else EXIT_BAD_NEWS)


async def _done(engine: "Engine", plan: "ResetPlan", wait_s: float) -> "ResetResult":
    """Reset, and wait for the instances of a broadcast group."""
    import asyncio

    result = await engine.reset(plan)
    until = asyncio.get_running_loop().time() + wait_s
    while not all(one.confirmed for one in result.instances) and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(ASK_AGAIN_S)
        result = await engine.reset_state(plan, result)
    return result


def _show_plan(plan: "ResetPlan", out: TextIO) -> None:
    who = f"{plan.members} online" if plan.members else "nobody online"
    print(f"{plan.group} on {plan.topic} to {plan.to} ({plan.model}, {who}):\n", file=out)
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


def _show_result(result: "ResetResult") -> None:
    broadcast = bool(result.instances)
    rows = [
        (one.broker, one.queue, one.target, one.set_to, "-" if broadcast else cell(one.reads)) for one in result.queues
    ]
    print_table(("broker", "queue", "asked for", "set to", "reads now"), rows)
    if result.instances:
        print()
        instances = [
            (one.client_id, one.address, f"{one.queues_confirmed} of {one.queues}", one.confirmed)
            for one in result.instances
        ]
        print_table(("instance", "address", "queues confirmed", "confirmed"), instances)
