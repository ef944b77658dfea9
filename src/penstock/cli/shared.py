"""What all commands that talk to an engine share: their options, running a question, and printing the answer.

Exit codes: 0 done; 1 done, and the answer is bad news (nothing found, lag above the limit, a reset that somebody has
not confirmed or that was not wanted after all); 2 it could not be done, said in one sentence on stderr.

Names and texts from elsewhere are printed with everything unprintable escaped, so that they cannot drive a terminal.
"""

import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from penstock.admin.engine import Engine

EXIT_DONE, EXIT_BAD_NEWS = 0, 1
DEFAULT_ENGINE = "rocketmq://127.0.0.1:9876"

EngineUrl = Annotated[
    str,
    typer.Option(
        "--engine",
        envvar="PENSTOCK_ENGINE",
        metavar="rocketmq://HOST:PORT",
        help="Penstock, or a RocketMQ cluster: its name servers, with ; between.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
As = Annotated[
    str,
    typer.Option(
        "--as", envvar="PENSTOCK_OPERATOR", metavar="NAME", help="Who you are, for the record [your login's name]."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

T = TypeVar("T")


def new_app(about: str, kind: type[TyperGroup] = TyperGroup) -> typer.Typer:
    return typer.Typer(
        cls=kind,
        help=about,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
    )


def asked(url: str, work: "Callable[[Engine], Coroutine[Any, Any, T]]", level: str = "error") -> T:
    """Do something with an engine. What fails is told in a sentence, so the log begins with errors; a command that goes
    on and on takes warnings too.
    """
    import asyncio

    from penstock import logs
    from penstock.admin.engine import opened
    from penstock.client.errors import Unreachable
    from penstock.config import LogConfig
    from penstock.errors import ConfigError

    async def run() -> T:
        async with opened(url) as engine:
            return await work(engine)

    logs.set_up(LogConfig(level=level))
    try:
        return asyncio.run(run())
    except Unreachable as error:
        raise ConfigError(f"{error} (is it running, and is --engine {url} right?)") from None


def operator(name: str) -> str:
    """Who gives a command: as they say, or else as this machine knows them."""
    import getpass

    from penstock.admin.requests import named

    try:
        return named(name or getpass.getuser())
    except (OSError, KeyError):  # a user without a name
        return "unknown"


def as_json(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()


def struct_of(value: object, **more: object) -> dict[str, object]:
    """A struct as a table, with what is worked out from it."""
    import msgspec

    return {**msgspec.structs.asdict(value), **more}  # type: ignore[arg-type]


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]], file: TextIO | None = None) -> None:
    """Columns; numbers to the right. As wide as they are where nobody watches."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = file or sys.stdout
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column, head in enumerate(heads):
        numbers = bool(rows) and all(isinstance(row[column], int) or row[column] is None for row in rows)
        table.add_column(head, justify="right" if numbers else "left", no_wrap=not out.isatty())
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    Console(file=out, width=None if out.isatty() else 10_000, highlight=False).print(table)


def cell(value: object) -> str:
    """A value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(cell, value)) or "-"
    return printable(str(value))


def printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def moment(time_ms: int) -> str:
    """A time in this machine's zone."""
    import datetime as dt

    if time_ms <= 0:
        return "-"
    try:
        return dt.datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


def sure(question: str, yes: bool) -> bool:
    """Ask, unless that was answered on the command line; where nobody can answer it is a no."""
    if yes:
        return True
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        print(file=sys.stderr)
        return False
