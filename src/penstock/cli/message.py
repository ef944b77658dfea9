"""`penstock message`: show one by its id, find them by a key."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.shared import (
    DEFAULT_ENGINE,
    EXIT_BAD_NEWS,
    AsJson,
    EngineUrl,
    as_json,
    asked,
    moment,
    new_app,
    printable,
)

if TYPE_CHECKING:
    from penstock.admin.model import Message

app = new_app("Messages that are stored: show one by its id, find them by a key.")


@app.command()
def show(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="As the producer got it, or as the broker gave it.")],
    topic: Annotated[str, typer.Option("--topic", "-t", help="Needed for an id that a producer gave.")] = "",
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """A message with all that is known of it. Exits with 1 when it is not there."""
    found = asked(engine, lambda e: e.message(message_id, topic))
    _print([found] if found else [], json, f"there is no message {message_id}: it may have expired")


@app.command()
def find(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="One of the keys that a producer gave it.")],
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """The messages of a topic that have a key, 64 at most. Exits with 1 when there are none."""
    _print(asked(engine, lambda e: e.messages(topic, key)), json, f"no message of {topic} has the key {key!r}")


def _print(found: "list[Message]", json: bool, otherwise: str) -> None:
    from penstock.cli.formats import as_table

    for message in found:
        print(as_json(as_table(message)) if json else "\n".join(_lines(message)) + "\n")
    if not found:
        typer.echo(otherwise, err=True)
        raise typer.Exit(EXIT_BAD_NEWS)


def _lines(message: "Message") -> list[str]:
    facts = {
        "id": message.id,
        "broker's id": message.offset_id,
        "topic": message.topic,
        "queue": f"{message.queue} on {message.broker}, offset {message.offset}",
        "born": moment(message.born_ms),
        "stored": moment(message.store_ms),
        "tags": message.tags,
        "keys": message.keys,
        "tries before": str(message.reconsume_times),
        **{f"property {name}": value for name, value in sorted(message.properties.items())},
    }
    body = message.body.decode(errors="replace")
    text = "\n".join(printable(line) for line in body.split("\n"))
    return [*(f"{name:24} {printable(value)}" for name, value in facts.items() if value), "", text]
