"""`penstock lag`: how far a group is behind, per queue, and who reads it."""

from typing import Annotated

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

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command()
def lag(
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this one.")] = "",
    limit: Annotated[
        int | None, typer.Option("--max", min=0, help="Exit with 1 when the group is further behind than this.")
    ] = None,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """How far a group is behind, queue by queue, with who reads each.

    A queue that two members read has two owners; one that nobody reads has none. The instances of a broadcast group
    stand in lines of their own.
    """
    lines = asked(engine, lambda e: e.lag(group, topic))
    behind = sum(line.lag for line in lines)
    if json:
        print(as_json({"group": group, "lag": behind, "queues": [struct_of(line, lag=line.lag) for line in lines]}))
    else:
        rows = [
            (one.topic, one.broker, one.queue, one.committed, one.end, one.lag, one.owners, moment(one.last_ms))
            for one in lines
        ]
        print_table(("topic", "broker", "queue", "committed", "end", "lag", "owner", "consumed up to"), rows)
        print(f"\n{group} is {behind} messages behind")
    raise typer.Exit(EXIT_BAD_NEWS if limit is not None and behind > limit else EXIT_DONE)
