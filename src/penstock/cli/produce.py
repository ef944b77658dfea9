"""`penstock produce`: messages from stdin, one per line, or whole files."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.shared import DEFAULT_ENGINE, AsJson, EngineUrl, as_json, asked
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.admin.engine import Engine
    from penstock.admin.model import Outgoing

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)

READ_BYTES = 1 << 16
MESSAGE_BYTES_MAX = 16 << 20
LINES, JSON = "lines", "json"


@app.command()
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Each is one message; without any, stdin is read.")
    ] = None,
    keys: Annotated[str, typer.Option("--key", "-k", help="Of every message; several with spaces between.")] = "",
    tags: Annotated[str, typer.Option("--tag", "-g", help="Of every message.")] = "",
    properties: Annotated[
        list[str] | None, typer.Option("--property", "-H", metavar="NAME=VALUE", help="Of every message; repeatable.")
    ] = None,
    key_mark: Annotated[
        str, typer.Option("--key-delimiter", "-K", metavar="MARK", help="A line is KEY, MARK, BODY.")
    ] = "",
    mark: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="MARK", help="Between messages; \\n, \\t, \\0.")
    ] = r"\n",
    form: Annotated[
        str, typer.Option("--input", metavar="lines|json", help="json: lines as `consume --json` writes them.")
    ] = LINES,
    queue: Annotated[
        int | None, typer.Option("--queue", "-p", min=0, help="All to this queue, and in their order.")
    ] = None,
    delay_ms: Annotated[int, typer.Option(min=0, help="Have them delivered this much later.")] = 0,
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after so many messages.")] = None,
    engine: EngineUrl = DEFAULT_ENGINE,
    json: AsJson = False,
) -> None:
    """Send what comes on stdin, one message per line, and end when all are stored.

    With --json one line per message says where it went. When one cannot be stored it stops there, says which, and
    exits with 2; all before that one are stored.
    """
    from penstock.admin.model import Outgoing
    from penstock.cli.formats import unescaped

    if form not in (LINES, JSON):
        raise ConfigError(f"--input is {LINES} or {JSON}, not {form!r}")
    given = dict(_pair(text) for text in properties or ())
    every = Outgoing(topic, b"", tags, keys, given, delay_ms)
    source = _Source(every, unescaped(key_mark), form)
    parts = _contents(files) if files else _lines(unescaped(mark))

    async def work(e: "Engine") -> int:
        from contextlib import aclosing

        sent = 0
        async with aclosing(e.send(source.messages(parts, count), queue)) as receipts:
            async for receipt in receipts:
                sent += 1
                if json:
                    print(as_json(receipt), flush=True)
        return sent

    stored = asked(engine, work, "warning")
    if not json:
        print(f"{stored} messages stored", file=sys.stderr)


def _pair(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not name or not mark or not value:
        raise ConfigError(f"--property {text!r}: give NAME=VALUE, neither of them empty")
    return name, value


async def _contents(files: list[str]) -> "AsyncIterator[bytes]":
    for file in files:
        try:
            with open(file, "rb") as opened:  # noqa: ASYNC230  # nothing else goes on
                yield opened.read(MESSAGE_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError(f"{file} cannot be read: {error.strerror}") from None


async def _lines(mark: bytes) -> "AsyncIterator[bytes]":
    """What comes on stdin, as soon as it comes; the mark behind the last message may be missing."""
    import asyncio

    rest = b""
    while data := await asyncio.to_thread(os.read, sys.stdin.fileno(), READ_BYTES):
        *lines, rest = (rest + data).split(mark)
        if len(rest) > MESSAGE_BYTES_MAX:
            raise ConfigError(f"a message of more than {MESSAGE_BYTES_MAX} bytes: is the --delimiter right?")
        for line in lines:
            yield line
    if rest:
        yield rest


class _Source:
    """Makes messages of what was read."""

    def __init__(self, every: "Outgoing", key_mark: bytes, form: str) -> None:
        self._every, self._key_mark = every, key_mark
        self._made = self._of_json if form == JSON else self._of_line

    async def messages(self, parts: "AsyncIterator[bytes]", count: int | None) -> "AsyncIterator[Outgoing]":
        left = sys.maxsize if count is None else count
        async for part in parts:
            yield self._made(part)
            left -= 1
            if not left:
                return

    def _of_line(self, part: bytes) -> "Outgoing":
        import msgspec

        if not self._key_mark or self._key_mark not in part:
            return msgspec.structs.replace(self._every, body=part)
        key, _, body = part.partition(self._key_mark)
        return msgspec.structs.replace(self._every, body=body, keys=key.decode(errors="replace"))

    def _of_json(self, part: bytes) -> "Outgoing":
        from penstock.cli.formats import message_in

        return message_in(part, self._every)
