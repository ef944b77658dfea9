"""`penstock group`: list, show, delete."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.shared import (
    DEFAULT_ENGINE,
    EXIT_BAD_NEWS,
    AsJson,
    EngineUrl,
    Yes,
    as_json,
    asked,
    cell,
    new_app,
    print_table,
    sure,
)

if TYPE_CHECKING:
    from penstock.admin.model import GroupDetail

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
def show(
    group: Name,
    over_s: Annotated[
        float,
        typer.Option(
            "--over", min=0, metavar="SECONDS", help="How far apart to look twice at queues that nobody reads."
        ),
    ] = 2,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """A group's members and the queues they read, its subscriptions, its settings and its lag.

    Instances with one ClientID are named, with the queues that they read twice; so are queues that nobody reads, and
    by how much these have grown between two looks.
    """
    from penstock.admin import growth

    found = asked(engine, lambda e: growth.group(e, group, over_s))
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
    _print_wrong(found)


def _print_wrong(found: "GroupDetail") -> None:
    for twins in found.twins:
        print(
            f"\n{len(twins.addresses)} instances have the ClientID {cell(twins.client_id)}: {cell(twins.addresses)}. "
            f"They read the same queues, each message twice: {cell(twins.read_twice)}. Give each a ClientID of its own."
        )
    if found.unread:
        print("\nqueues that nobody reads:")
        rows = [(one.topic, one.broker, one.queue, one.lag, one.growth) for one in found.unread]
        print_table(("topic", "broker", "queue", "lag", f"grew in {found.looked_s:g} s by"), rows)


@app.command()
def delete(group: Name, yes: Yes = False, engine: EngineUrl = DEFAULT_ENGINE, json: AsJson = False) -> None:
    """Delete a group that nobody is in: its settings, its offsets, its retries and dead letters."""
    found = asked(engine, lambda e: e.group(group))
    if not sure(f"delete {group}, its offsets, its retries and dead letters? {found.lag} messages are unread.", yes):
        raise typer.Exit(EXIT_BAD_NEWS)
    asked(engine, lambda e: e.delete_group(group))
    print(as_json({"deleted": group}) if json else f"{group} is gone")
