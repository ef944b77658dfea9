"""`penstock topic`: list, show, create, alter, delete."""

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
    moment,
    new_app,
    print_table,
    struct_of,
    sure,
)

app = new_app("Topics of an engine: list, show, create, alter, delete.")

Name = Annotated[str, typer.Argument(metavar="TOPIC")]
Permissions = Annotated[str | None, typer.Option(metavar="rw|r|w|none", help="What clients may do: read, write.")]


@app.command("list")
def list_(
    all_: Annotated[bool, typer.Option("--all", "-a", help="System topics, retries and dead letters too.")] = False,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """All topics, one per line."""
    topics = [one for one in asked(engine, lambda e: e.topics()) if all_ or one.kind == "normal"]
    if json:
        print(as_json(topics))
        return
    rows = [(one.name, one.kind, one.queues, one.permissions or "none", one.brokers) for one in topics]
    print_table(("topic", "kind", "queues", "may", "brokers"), rows)


@app.command()
def show(topic: Name, engine: EngineUrl = DEFAULT_ENGINE, json: AsJson = False) -> None:
    """A topic's queues, how full they are, and who consumes it."""
    found = asked(engine, lambda e: e.topic(topic))
    if json:
        queues = [struct_of(queue, messages=queue.messages) for queue in found.queues]
        print(as_json(struct_of(found, queues=queues)))
        return
    print(f"{found.name} ({found.kind})")
    for share in found.shares:
        queues_text = f"{share.read_queues} queues to read, {share.write_queues} to write"
        print(f"on {share.broker}: {queues_text}, permissions {share.permissions or 'none'}")
    print(f"consumed by: {', '.join(found.groups) or 'nobody'}\n")
    rows = [(q.broker, q.queue, q.min_offset, q.max_offset, q.messages, moment(q.last_ms)) for q in found.queues]
    print_table(("broker", "queue", "first", "next", "messages", "last stored"), rows)


@app.command()
def create(
    topic: Name,
    queues: Annotated[int, typer.Option("--queues", "-q", min=1, help="On each broker.")] = 4,
    permissions: Permissions = "rw",
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """Make a topic on every broker; one that exists is an error."""
    asked(engine, lambda e: e.create_topic(topic, queues, permissions or "rw"))
    print(
        as_json({"created": topic, "queues": queues}) if json else f"{topic} is there, with {queues} queues per broker"
    )


@app.command()
def alter(
    topic: Name,
    queues: Annotated[int | None, typer.Option("--queues", "-q", min=1, help="To read and to write.")] = None,
    read_queues: Annotated[int | None, typer.Option(min=0, help="Only those to read.")] = None,
    write_queues: Annotated[int | None, typer.Option(min=0, help="Only those to write.")] = None,
    permissions: Permissions = None,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """Change what is given; the rest stays.

    To take queues away, first --write-queues, and --read-queues when consumers have emptied them.
    """
    read, write = (given if given is not None else queues for given in (read_queues, write_queues))
    if read is None and write is None and permissions is None:
        raise typer.BadParameter("nothing to change: give --queues, --read-queues, --write-queues or --permissions")
    asked(engine, lambda e: e.alter_topic(topic, read, write, permissions))
    show(topic, engine, json)


@app.command()
def delete(topic: Name, yes: Yes = False, engine: EngineUrl = DEFAULT_ENGINE, json: AsJson = False) -> None:
    """Delete a topic with all its messages and the offsets of its consumers."""
    found = asked(engine, lambda e: e.topic(topic))
    count = sum(queue.messages for queue in found.queues)
    if not sure(f"delete {topic} with {count} messages, consumed by {', '.join(found.groups) or 'nobody'}?", yes):
        raise typer.Exit(EXIT_BAD_NEWS)
    asked(engine, lambda e: e.delete_topic(topic))
    print(as_json({"deleted": topic, "messages": count}) if json else f"{topic} is gone")
