"""`penstock store`: look at a data folder that no broker uses. Answers go to stdout, progress to stderr.

Both commands only read, and end with 0 when all they saw is sound, 1 when something is damaged. A folder with a lock
file is locked while they look, so that nothing half written is taken for damage.
"""

import contextlib
import datetime as dt
import os
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.store.files import LocalDisk
    from penstock.store.plan import Damage
    from penstock.store.verify import Dumped, Verdict

app = typer.Typer(
    help="Look at the log in a data folder.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)

EXIT_SOUND, EXIT_DAMAGED = 0, 1

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The broker's data folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


@app.command()
def verify(folder: Folder, json: AsJson = False) -> None:
    """Check every entry in the log, and every table made from it."""
    from penstock.store import verify as store

    with _opened(folder) as disk, _progress() as progress:
        verdict = store.verify(disk, progress=progress)
    print(_json(_as_table(verdict)) if json else "\n".join(_told(verdict)))
    raise typer.Exit(EXIT_SOUND if verdict.sound else EXIT_DAMAGED)


@app.command()
def dump(
    folder: Folder,
    queue: Annotated[int | None, typer.Option(min=0, help="Only this queue, by its number.")] = None,
    first: Annotated[int, typer.Option("--from", min=0, metavar="OFFSET", help="Only from this offset on.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many entries.")] = None,
    json: AsJson = False,
) -> None:
    """Print the entries of the log, one per line, in the order of the log, and the damage between them.

    In JSON an entry carries its payload, in base64.
    """
    from penstock.store import verify as store

    sound = True
    with _opened(folder) as disk:
        for item in islice((item for item in store.dump(disk) if _is_wanted(item, queue, first)), limit):
            sound = sound and getattr(item, "sound", False)
            print(_json(_as_table(item)) if json else _line(item))
    raise typer.Exit(EXIT_SOUND if sound else EXIT_DAMAGED)


@contextlib.contextmanager
def _opened(folder: str) -> Iterator["LocalDisk"]:
    """The disk, locked against brokers. A folder that is not there is refused, since opening the disk would make it."""
    from penstock.errors import ConfigError
    from penstock.store.files import LocalDisk
    from penstock.store.lock import NAME, FolderLock

    if not os.path.isdir(folder):
        raise ConfigError(f"{folder} is not a folder")
    with contextlib.ExitStack() as stack:
        if os.path.exists(os.path.join(folder, NAME)):
            stack.callback(FolderLock(folder).release)
        yield LocalDisk(folder)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A line that is written over and over where somebody watches; elsewhere a line per tenth."""
    watched, told = sys.stderr.isatty(), 0

    def show(done_bytes: int, all_bytes: int) -> None:
        nonlocal told
        tenths = 10 * done_bytes // max(all_bytes, 1)
        if watched or tenths > told:
            told = tenths
            text = f"checked {done_bytes:,} of {all_bytes:,} bytes"
            print(f"\r{text}" if watched else text, end="" if watched else "\n", file=sys.stderr, flush=True)

    yield show
    if watched and told:
        print(file=sys.stderr)


def _is_wanted(item: "Dumped | Damage", queue: int | None, first: int) -> bool:
    """Damage always is: nobody knows to which queue it belonged."""
    if isinstance(item, tuple):
        return True
    return (queue is None or item.queue == queue) and item.offset + item.count > first


def _told(verdict: "Verdict") -> Iterator[str]:
    yield from (_line(damage) for damage in verdict.damage)
    yield from (f"note: {note}" for note in verdict.notes)
    state = "sound" if verdict.sound else f"damaged in {len(verdict.damage)} places"
    yield f"{verdict.entries} entries, {verdict.messages} messages, {verdict.bytes} bytes: {state}"


def _line(item: "Dumped | Damage") -> str:
    if isinstance(item, tuple):
        return f"damaged: {item.length} bytes at position {item.position}: {item.why}"
    last = f"..{item.offset + item.count - 1}" if item.count > 1 else ""
    stored = dt.datetime.fromtimestamp(item.store_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    return (
        f"{stored} position={item.position} queue={item.queue} row={item.row} offset={item.offset}{last} "
        f"encoding={item.encoding} flags={item.flags} bytes={item.length}{'' if item.sound else ' damaged: checksum'}"
    )


def _as_table(item: "Verdict | Dumped | Damage") -> dict[str, object]:
    """With names throughout, where the store has tuples."""
    import msgspec

    if isinstance(item, tuple):
        return {"damaged": item._asdict()}
    table = msgspec.structs.asdict(item)
    if "damage" in table:
        table |= {"sound": item.sound, "damage": [damage._asdict() for damage in table["damage"]]}
    return table


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()
