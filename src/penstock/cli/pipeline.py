"""`penstock pipeline`: list them, run one, and tell from its lake how far it is.

`run` has a subcommand per pipeline; its flags are the fields of the pipeline's `Settings`, so that the command line can
be told what Python can be told.
"""

import inspect
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from penstock.cli.shared import DEFAULT_ENGINE, EXIT_BAD_NEWS, AsJson, as_json, moment, new_app, print_table, struct_of
from penstock.errors import ConfigError
from penstock.spark.pipelines import PIPELINES, Pipeline, pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.pipelines.running import Progress, Stop


ENVIRONMENT = {"service": "PENSTOCK_ENGINE", "lake": "PENSTOCK_LAKE"}
LEVELS = ("off", "error", "warn", "info")
Lake = Annotated[
    str, typer.Option("--lake", metavar="DIR", envvar=ENVIRONMENT["lake"], help="The folder that pipelines were given.")
]


class Commands(TyperGroup):
    """`pipeline replay` is `pipeline run replay`: it is run by hand, and ends."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), "replay"]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(PIPELINES["replay"]) if cmd_name == "replay" else super().get_command(ctx, cmd_name)


class Runs(TyperGroup):
    """`run NAME`: made from the pipeline's settings when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(PIPELINES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(PIPELINES[cmd_name]) if cmd_name in PIPELINES else None


app = new_app("Ready-made pipelines on Spark: topics to a lake, and what the lake tells.", Commands)
runs = typer.Typer(cls=Runs, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
app.add_typer(runs, name="run", help="Go on where it stopped, until Ctrl-C, or with --once until all is taken.")


@runs.callback()
def _runs() -> None:
    pass


@app.command("list")
def list_(json: AsJson = False) -> None:
    """The pipelines that there are."""
    if json:
        print(as_json([one._asdict() for one in PIPELINES.values()]))
    else:
        print_table(("pipeline", "what it does"), [(one.name, one.about) for one in PIPELINES.values()])


# --- what is in a lake ------------------------------------------------------------------------------------------------


@app.command()
def status(
    name: Annotated[str, typer.Argument(metavar="[PIPELINE]", help="Only this one.")] = "",
    lake: Lake = "lake",
    limit: Annotated[
        int | None, typer.Option("--max", min=0, help="Exit with 1 when one is further behind than this.")
    ] = None,
    service: Annotated[str, typer.Option(envvar=ENVIRONMENT["service"], help="What they read from.")] = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """How far the pipelines of a lake are, and how far behind the service. Told from the lake: no Spark is started."""
    from pathlib import Path

    from penstock.client.errors import ClientError
    from penstock.spark.pipelines import status

    found = status.queries(Path(lake), pipeline(name).name if name else "")
    try:
        status.compare(found, service)
    except ClientError as error:
        if limit is not None:
            raise
        _say(f"penstock: how far behind is not known: {error}")
    tables = [one for one in status.tables(Path(lake)) if not name or one.name.split("/")[0] == name]
    if json:
        print(as_json({"queries": found, "tables": tables}))
    else:
        print_table(
            ("pipeline", "query", "batches", "last began", "rows", "behind"),
            [
                (one.pipeline, one.query, (one.batch if one.batch is not None else -1) + 1, moment(one.at_ms), one.rows,
                 one.behind) for one in found
            ],
        )  # fmt: skip
        print()
        print_table(("table", "files", "bytes"), [(one.name, one.files, one.size_bytes) for one in tables])
    if limit is not None and any((one.behind or 0) > limit for one in found):
        raise typer.Exit(EXIT_BAD_NEWS)


@app.command()
def show(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="As `status` names it.")],
    lake: Lake = "lake",
    limit: Annotated[int, typer.Option("--rows", "-n", min=1, max=100_000, help="At most so many.")] = 20,
    order: Annotated[str, typer.Option("--by", metavar="COLUMN", help="Those with its largest values first.")] = "",
    json: AsJson = False,
) -> None:
    """Rows of a table. Read from its files: no Spark is started."""
    from pathlib import Path

    from penstock.spark.pipelines import status

    columns, rows = status.rows(Path(lake), table, limit, order)
    if json:
        for row in rows:
            print(as_json(dict(zip(columns, map(_plain, row), strict=True))))
    else:
        print_table(columns, [[_plain(value) for value in row] for row in rows])


def _plain(value: object) -> object:
    """Bytes as text where they are text; a map as one."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


# --- run --------------------------------------------------------------------------------------------------------------

Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="local[N], or a Spark cluster: spark://HOST:PORT.")
]
Conf = Annotated[list[str], typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's; may be repeated.")]
SparkLog = Annotated[str, typer.Option("--spark-log", metavar="|".join(LEVELS), help="How much Spark itself says.")]


def _command(chosen: Pipeline) -> Any:
    """The command of one pipeline: its own flags, then what is Spark's."""
    module = chosen.module
    fields = _flags(module.Settings)

    def run(**given: Any) -> None:
        master, conf, level, json = (given.pop(name) for name in ("master", "conf", "spark_log", "json"))
        _run(chosen, module.Settings(**given), master, {**_quiet(level), **_settings(conf)}, json)

    more = [_parameter("master", Master, "local[*]"), _parameter("conf", Conf, []), _parameter("json", AsJson, False)]
    parameters = [*fields, *more, _parameter("spark_log", SparkLog, "off")]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    made = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    made.command(help=inspect.getdoc(module))(run)
    command = typer.main.get_command(made)
    command.name = chosen.name
    return command


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flags(settings: Any) -> Iterator[inspect.Parameter]:
    """A flag per field, those that must be given first."""
    import msgspec

    for field in msgspec.structs.fields(settings):
        kind, (about, *_) = field.type.__origin__, field.type.__metadata__
        option = typer.Option(
            help=about.description, envvar=ENVIRONMENT.get(field.name), show_default=field.default not in ("", 0)
        )
        default = inspect.Parameter.empty if field.required else field.default
        yield _parameter(field.name, Annotated[kind, option], default)


def _settings(given: list[str]) -> dict[str, str]:
    for one in given:
        if not one.partition("=")[0].startswith("spark.") or "=" not in one:
            raise ConfigError(f"--conf {one[:100]!r} is no setting of Spark's: write spark.name=value")
    return {name: value for name, _, value in (one.partition("=") for one in given)}


def _quiet(level: str) -> dict[str, str]:
    if level not in LEVELS:
        raise ConfigError(f"--spark-log {level[:20]!r} is not one of {', '.join(LEVELS)}")
    from penstock.spark.pipelines.running import quiet

    return quiet(level)


def _run(chosen: Pipeline, settings: Any, master: str, conf: dict[str, str], json: bool) -> None:
    settings.check()
    with _spark(chosen, master, conf) as spark, _stopped_by_signals() as stop:
        outcome = chosen.module.run(settings, spark=spark, show=_show_json if json else _show, stop=stop)
    if json:
        print(as_json({"done": chosen.name, **struct_of(outcome)}))
    else:
        ended = "stopped" if stop.is_set() else "done"
        print(f"{chosen.name}: {ended}; {outcome.rows:,} messages in {outcome.batches} batches")


@contextmanager
def _spark(chosen: Pipeline, master: str, conf: dict[str, str]) -> "Iterator[SparkSession]":
    """Spark comes first, since it takes Ctrl-C for itself when it starts."""
    import warnings

    from penstock.spark.pipelines.running import SPARK_SETTINGS
    from penstock.spark.session import session

    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    _say(f"{chosen.name}: starting Spark on {master}")
    spark = session(f"penstock {chosen.name}", master, {**SPARK_SETTINGS, **conf})
    try:
        yield spark
    finally:
        spark.stop()


def _show(progress: "Progress") -> None:
    if progress.rows:
        left = "" if progress.behind is None else f", {progress.behind:,} behind"
        _say(
            f"{progress.query}: batch {progress.batch}, {progress.rows:,} rows in {progress.took_ms / 1000:.1f} s"
            f" ({progress.rows_per_s:,.0f}/s){left}"
        )


def _show_json(progress: "Progress") -> None:
    print(as_json(progress), flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def _stopped_by_signals() -> "Iterator[Stop]":
    """The first Ctrl-C or SIGTERM asks the run to stop; the second is not waited for."""
    from penstock.spark.pipelines.running import Stop

    stop = Stop()
    before: dict[int, Any] = {}

    def asked(number: int, frame: object) -> None:
        stop.set()
        for one, handler in before.items():
            signal.signal(one, handler)

    before.update({one: signal.signal(one, asked) for one in (signal.SIGINT, signal.SIGTERM)})
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
