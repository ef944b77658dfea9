"""`penstock consume`: messages of a topic to stdout, as they are. It is in no group and commits nothing: nobody is
disturbed.
"""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.shared import DEFAULT_ENGINE, AsJson, EngineUrl, asked

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from penstock.admin.engine import Engine
    from penstock.admin.model import Message
    from penstock.cli.formats import Write

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

LINES = r"%s\n"


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            "-o",
            metavar="PLACE",
            help="earliest, latest, an offset, 15m (ago; s, m, h, d), 2026-01-31T12:00[Z], or @milliseconds.",
        ),
    ] = "earliest",
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after so many messages.")] = None,
    to_end: Annotated[
        bool, typer.Option("--exit", "-e", help="Stop at what is the end now, instead of waiting for more.")
    ] = False,
    queue: Annotated[
        list[int] | None, typer.Option("--queue", "-p", min=0, help="Only this queue; repeatable.")
    ] = None,
    tags: Annotated[str, typer.Option("--tags", "-g", metavar="A||B", help="Only messages with these tags.")] = "*",
    sql: Annotated[str, typer.Option(metavar="EXPRESSION", help="Only what this SQL filter selects.")] = "",
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="%s body, %S its bytes, %k keys, %g tags, %t topic, %b broker, %p queue, %o offset, %i id, "
            r"%I broker's id, %T stored, %B born (ms), %h properties, %%; \n \t \r \0.",
        ),
    ] = LINES,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """Write the messages of a topic to stdout, and go on as more come.

    One body per line unless --format or --json says otherwise (JSON: one object per line, which `produce --input json`
    takes). It commits nothing and is in no group. Ctrl-C ends it.
    """
    from penstock.admin.place import place
    from penstock.cli.formats import json_line, writer
    from penstock.clock import SystemClock

    where = place(start, SystemClock().now_ms())
    write = json_line if json else writer(format_)

    async def work(e: "Engine") -> None:
        await _copy(e.read(topic, where, queue or (), tags, sql, to_end), count, write)

    try:
        asked(engine, work, "warning")
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:  # whoever read has had enough; the interpreter must not find out again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _copy(batches: "AsyncGenerator[list[Message], None]", count: int | None, write: "Write") -> None:
    """Write so many messages; what has come is seen before more is waited for."""
    from contextlib import aclosing

    left = sys.maxsize if count is None else count
    async with aclosing(batches) as coming:
        async for batch in coming:
            for message in batch[:left]:
                sys.stdout.buffer.write(write(message))
            sys.stdout.buffer.flush()
            left -= len(batch)
            if left <= 0:
                return
