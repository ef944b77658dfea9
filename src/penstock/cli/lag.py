"""`penstock lag`: how far a group is behind, per queue, and who reads it."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.shared import (
    DEFAULT_ENGINE,
    EXIT_BAD_NEWS,
    EXIT_DONE,
    AsJson,
    EngineUrl,
    as_json,
    asked,
    moment,
    print_table,
    struct_of,
)

if TYPE_CHECKING:
    from penstock.admin.model import Lag

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command()
def lag(
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this one.")] = "",
    limit: Annotated[
        int | None, typer.Option("--max", min=0, help="Exit with 1 when the group is further behind than this.")
    ] = None,
    over_s: Annotated[
        float, typer.Option("--over", min=0, metavar="SECONDS", help="Look twice, so far apart: how much has it grown?")
    ] = 0,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """How far a group is behind, queue by queue, with who reads each.

    A queue that two members read has two owners; one that nobody reads has none. The instances of a broadcast group
    stand in lines of their own.
    """
    from penstock.admin import growth

    lines = asked(engine, lambda e: growth.lag(e, group, topic, over_s) if over_s else e.lag(group, topic))
    behind = sum(line.lag for line in lines)
    if json:
        queues = [struct_of(line, lag=line.lag) for line in lines]
        print(as_json({"group": group, "lag": behind, "over_s": over_s, "queues": queues}))
    else:
        _print(lines, over_s)
        print(f"\n{group} is {behind} messages behind{_growth(lines, over_s)}")
    raise typer.Exit(EXIT_BAD_NEWS if limit is not None and behind > limit else EXIT_DONE)


def _print(lines: "list[Lag]", over_s: float) -> None:
    grows = ("grew by",) if over_s else ()
    rows = [
        (one.topic, one.broker, one.queue, one.committed, one.end, one.lag)
        + ((one.growth,) if over_s else ())
        + (one.owners, moment(one.last_ms))
        for one in lines
    ]
    print_table(("topic", "broker", "queue", "committed", "end", "lag", *grows, "owner", "consumed up to"), rows)


def _growth(lines: "list[Lag]", over_s: float) -> str:
    if not over_s:
        return ""
    grown = sum(line.growth or 0 for line in lines)
    return f", {abs(grown)} {'more' if grown >= 0 else 'less'} than {over_s:g} s ago"
