"""`penstock group`: list, show, delete."""

from typing import Annotated

import typer

from penstock.cli.shared import (
    DEFAULT_ENGINE,
    EXIT_BAD_NEWS,
    AsJson,
    EngineUrl,
    Yes,
    as_json,
    asked,
    new_app,
    print_table,
    sure,
)

app = new_app("Consumer groups of an engine: list, show, delete.")

Name = Annotated[str, typer.Argument(metavar="GROUP")]


@app.command("list")
def list_(engine: EngineUrl = DEFAULT_ENGINE, json: AsJson = False) -> None:
    """All groups, one per line."""
    groups = asked(engine, lambda e: e.groups())
    if json:
        print(as_json(groups))
        return
    print_table(("group", "members", "model"), [(one.name, one.members, one.model or "-") for one in groups])


@app.command()
def show(group: Name, engine: EngineUrl = DEFAULT_ENGINE, json: AsJson = False) -> None:
    """A group's members and the queues they read, its subscriptions, its settings and its lag."""
    found = asked(engine, lambda e: e.group(group))
    if json:
        print(as_json(found))
        return
    model = f"{found.model}, " if found.model else ""
    print(f"{found.name}: {model}{len(found.members)} members online, {found.lag} messages behind")
    print(", ".join(f"{name} {value}" for name, value in found.settings.items()) + "\n")
    if found.subscriptions:
        rows = [(one.topic, one.expression, one.kind, one.version) for one in found.subscriptions]
        print_table(("topic", "filter", "kind", "version"), rows)
        print()
    if found.members:
        members = [(m.client_id, m.address, m.language, m.version, m.queues) for m in found.members]
        print_table(("member", "address", "language", "version", "reads"), members)


@app.command()
def delete(group: Name, yes: Yes = False, engine: EngineUrl = DEFAULT_ENGINE, json: AsJson = False) -> None:
    """Delete a group that nobody is in: its settings, its offsets, its retries and dead letters."""
    found = asked(engine, lambda e: e.group(group))
    if not sure(f"delete {group}, its offsets, its retries and dead letters? {found.lag} messages are unread.", yes):
        raise typer.Exit(EXIT_BAD_NEWS)
    asked(engine, lambda e: e.delete_group(group))
    print(as_json({"deleted": group}) if json else f"{group} is gone")
