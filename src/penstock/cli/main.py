"""The `penstock` command: finds the subcommand, and turns our errors into one sentence.

A subcommand is a line in `COMMANDS` and a module with an `app`; only the module that was asked for is imported (all of
them for `--help`). Exit codes: 0 done, 1 done and the answer is bad news, 2 it could not be done as asked.
"""

import importlib
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import penstock
from penstock.errors import PenstockError

EXIT_NOT_DONE = 2
COMMANDS = {
    "serve": "penstock.cli.serve",
    "topic": "penstock.cli.topic",
    "group": "penstock.cli.group",
    "lag": "penstock.cli.lag",
    "reset": "penstock.cli.reset",
    "request": "penstock.cli.request",
    "message": "penstock.cli.message",
    "produce": "penstock.cli.produce",
    "consume": "penstock.cli.consume",
    "store": "penstock.cli.store",
    "pipeline": "penstock.cli.pipeline",
}


class Subcommands(TyperGroup):
    """Imports a subcommand's module when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(importlib.import_module(COMMANDS[cmd_name]).app)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=Subcommands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def penstock_command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A durable message broker that RocketMQ and Pulsar clients connect to."""


def main() -> None:
    try:
        app(prog_name="penstock")
    except PenstockError as error:
        from penstock.cli.shared import printable

        lines = map(printable, f"penstock: {error}".split("\n"))  # names from elsewhere may be in it
        print("\n".join(lines), file=sys.stderr)
        sys.exit(EXIT_NOT_DONE)
