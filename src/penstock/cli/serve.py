"""`penstock serve`: a broker in the foreground. A flag that is not given changes nothing."""

import gc
import os
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

Text = str | None
Port = int | None


@app.command()
def serve(
    data: Annotated[
        Text, typer.Option(help="The folder of the broker's data; made if it is not there.  [data]")
    ] = None,
    host: Annotated[Text, typer.Option(help="The address to listen on.  [127.0.0.1]")] = None,
    namesrv_port: Annotated[Port, typer.Option(help="RocketMQ name server; 0 takes any free port.  [9876]")] = None,
    broker_port: Annotated[Port, typer.Option(help="RocketMQ broker.  [10911]")] = None,
    pulsar_port: Annotated[Port, typer.Option(help="Pulsar binary protocol.  [6650]")] = None,
    http_port: Annotated[Port, typer.Option(help="Health, metrics and Pulsar's HTTP side.  [8080]")] = None,
    advertise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST[:PORT]",
            help="What clients are told to connect to, if it is not where they found us; with pulsar:// in front, "
            "Pulsar's clients alone. May be repeated.",
        ),
    ] = None,
    config: Annotated[Text, typer.Option(metavar="FILE.toml", help="Settings; see docs/configuration.md.")] = None,
    ready_file: Annotated[
        Text, typer.Option(metavar="FILE", help="Written once all ports are open: addresses and process id, as JSON.")
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option(
            "--insecure", help="Listen where other machines can connect, although nobody is asked who they are."
        ),
    ] = None,
    durability: Annotated[
        Text, typer.Option(metavar="sync|async", help="Acknowledge once on disk, or once in the page cache.  [sync]")
    ] = None,
    log_level: Annotated[Text, typer.Option(metavar="debug|info|warning|error", help="What is logged.  [info]")] = None,
    log_format: Annotated[Text, typer.Option(metavar="text|json", help="For people or for machines.  [text]")] = None,
) -> None:
    """Run a broker until it is stopped with Ctrl-C or SIGTERM.

    Values come from the file (--config), then from variables (PENSTOCK_STORE_DURABILITY=async), then from these flags;
    what comes later wins.
    """
    server: dict[str, object] = {
        "data": data,
        "host": host,
        "namesrv_port": namesrv_port,
        "broker_port": broker_port,
        "pulsar_port": pulsar_port,
        "http_port": http_port,
        "advertise": advertise,
        "ready_file": ready_file,
        "insecure": insecure,
    }
    flags: dict[str, dict[str, object]] = {
        "server": server,
        "store": {"durability": durability},
        "log": {"level": log_level, "format": log_format},
    }
    raise typer.Exit(_run(config, flags))


def _run(file: str | None, flags: dict[str, dict[str, object]]) -> int:
    gc.disable()  # until all is loaded: looking for garbage would be a sixth of the start
    from penstock import configure, logs, server

    config = configure.load(file, os.environ, {section: _given(table) for section, table in flags.items()})
    logs.set_up(config.log)
    return server.run(config)


def _given(table: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in table.items() if value not in (None, [], ())}
