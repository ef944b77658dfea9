"""Structured logs on the standard library: a sentence, and what it is about as fields.

    log = logs.get(__name__)
    log.info("topic created", topic=name, queues=8)

    2026-01-31T12:00:00.123Z INFO    penstock.core.topics: topic created topic=orders queues=8

As `text`, one line per record; as `json`, one object per line. Whatever a field holds, it cannot fake another field or
another line: everything that is not printable is escaped. A stack trace is the one thing of several lines, each behind
a bar.

Who owns the process sets logging up (`set_up`); a library only gets loggers.
"""

import json
import logging
import math
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from penstock.config import LogConfig

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
VALUE_CHARS_MAX = 2_000
_MINE = "penstock_fields"
_RESERVED = frozenset({"time", "level", "logger", "message", "trace"})


class Log:
    """A logger whose records carry fields."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, message: str, /, **fields: object) -> None:
        self._log(logging.DEBUG, message, fields)

    def info(self, message: str, /, **fields: object) -> None:
        self._log(logging.INFO, message, fields)

    def warning(self, message: str, /, **fields: object) -> None:
        self._log(logging.WARNING, message, fields)

    def error(self, message: str, /, **fields: object) -> None:
        self._log(logging.ERROR, message, fields)

    def exception(self, message: str, /, **fields: object) -> None:
        """As `error`, with the stack trace of the exception being handled."""
        self._log(logging.ERROR, message, fields, trace=True)

    def _log(self, level: int, message: str, fields: Mapping[str, object], trace: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, message, extra={_MINE: fields}, exc_info=trace, stacklevel=3)


def get(name: str) -> Log:
    return Log(name)


def fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    """What a record is about; empty for records of other libraries."""
    fields: Mapping[str, object] = getattr(record, _MINE, {})
    return fields


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time_of(record)} {record.levelname:<7} {record.name}: {_escaped(record.getMessage())}"
        for key, value in fields_of(record).items():
            line += f" {_value(key)}={_value(value)}"
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return line + "".join(f"\n    | {_escaped(part)}" for part in trace.splitlines())


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, value in fields_of(record).items():
            entry[f"{key}_" if key in _RESERVED else key] = _shortened(value)
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


FORMATS = {"text": TextFormatter, "json": JsonFormatter}


def set_up(config: LogConfig, stream: TextIO | None = None) -> None:
    """Send everything to one stream (stderr), ours from the level asked for, other libraries' from warnings on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(FORMATS[config.format]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("penstock").setLevel(LEVELS[config.level])


def _time_of(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _shortened(value: object) -> object:
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    text = str(value)
    return text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + "…"


def _value(value: object) -> str:
    """A field's value as one word, in quotes when it would not be one otherwise."""
    text = str(_shortened(value))
    if text and text.isprintable() and not any(mark in text for mark in ' "=\\'):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _escaped(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]
