"""`penstock consume`: messages of a topic to stdout, as they are. It is in no group and commits nothing: nobody is
disturbed. With `--group` it is a member of one, shares its queues, and commits what it has written.
"""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.shared import DEFAULT_ENGINE, AsJson, EngineUrl, asked

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from penstock.admin.engine import Engine
    from penstock.admin.model import Message
    from penstock.cli.formats import Write

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

LINES = r"%s\n"


From = Annotated[
    str,
    typer.Option(
        "--from",
        "-o",
        metavar="PLACE",
        help="earliest, latest, an offset, 15m (ago; s, m, h, d), 2026-01-31T12:00[Z], or @milliseconds. "
        "With --group: where a group begins that has no offsets yet.",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help="%s body, %S its bytes, %k keys, %g tags, %t topic, %b broker, %p queue, %o offset, %i id, "
        r"%I broker's id, %T stored, %B born (ms), %h properties, %%; \n \t \r \0.",
    ),
]
Group = Annotated[
    str, typer.Option("--group", "-G", metavar="GROUP", help="As a member of this group: commits what was written.")
]
Queues = Annotated[list[int] | None, typer.Option("--queue", "-p", min=0, help="Only this queue; repeatable.")]
ToEnd = Annotated[bool, typer.Option("--exit", "-e", help="Stop at what is the end now, instead of waiting for more.")]


@app.command()
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    start: From = "earliest",
    group: Group = "",
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after so many messages.")] = None,
    to_end: ToEnd = False,
    queue: Queues = None,
    tags: Annotated[str, typer.Option("--tags", "-g", metavar="A||B", help="Only messages with these tags.")] = "*",
    sql: Annotated[str, typer.Option(metavar="EXPRESSION", help="Only what this SQL filter selects.")] = "",
    format_: Format = LINES,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """Write the messages of a topic to stdout, and go on as more come.

    One body per line unless --format or --json says otherwise (JSON: one object per line, which `produce --input json`
    takes). It commits nothing and is in no group, unless --group names one. Ctrl-C ends it; with --group it then
    commits what was written and leaves the group, so that others go on at once.
    """
    from penstock.admin.place import place
    from penstock.cli.formats import json_line, writer
    from penstock.clock import SystemClock
    from penstock.errors import ConfigError

    if group and queue:
        raise ConfigError(
            "--queue and --group exclude each other: the members of a group share its queues by themselves"
        )
    where = place(start, SystemClock().now_ms())
    write = json_line if json else writer(format_)

    async def work(e: "Engine") -> None:
        if group:
            _end_on_sigterm()
            await _copy(e.consume(topic, group, where, tags, sql, to_end, count), None, write)
        else:
            await _copy(e.read(topic, where, queue or (), tags, sql, to_end), count, write)

    _until_interrupted(lambda: asked(engine, work, "warning"))


def _until_interrupted(run: "Callable[[], None]") -> None:
    from asyncio import CancelledError

    try:
        run()
    except (KeyboardInterrupt, CancelledError):
        pass
    except BrokenPipeError:  # whoever read has had enough; the interpreter must not find out again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_on_sigterm() -> None:
    """As Ctrl-C does it: what was written is committed, and the group is left."""
    import asyncio
    import signal

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


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
