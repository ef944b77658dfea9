"""What can go wrong in a query, in one sentence each; and how such a sentence gets through Spark.

Spark runs a source in processes of its own and shows what they raise as the text of a traceback. Which lines of ours
raised it helps nobody who has misspelt a topic: `sentence` leaves the stack out of that text. Warnings go to standard
error, which is the driver's or the executor's log; those processes set no logging up, so it is done here.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import logs
from penstock.config import LogConfig
from penstock.errors import PenstockError


class SparkSourceError(PenstockError):
    """The base of all."""


class OutsideQueue(SparkSourceError):
    """An offset that a queue does not have."""

    def __init__(self, option: str, queue: object, offset: int, min_offset: int, max_offset: int) -> None:
        super().__init__(
            f"{option} has offset {offset} for queue {queue}, which holds offsets {min_offset} up to {max_offset}: "
            "give one that is there, or set failOnDataLoss to false to read what is"
        )
        self.queue, self.offset = queue, offset


class DataLost(SparkSourceError):
    """Messages are gone that a query has not read."""

    def __init__(self, what: str, messages: int) -> None:
        end = "" if what.endswith("?") else ";"
        super().__init__(f"{what}{end} set failOnDataLoss to false to go on without them")
        self.messages = messages


@contextmanager
def sentence() -> Iterator[None]:
    """For what Spark calls: an error of ours leaves the process as its sentence alone. That process ends with it, so
    what is set here for all tracebacks outlives nothing.
    """
    if not logging.getLogger().handlers:  # Python would print a warning without its fields, and so without its counts
        logs.set_up(LogConfig(level="warning"))
    try:
        yield
    except PenstockError as error:
        sys.tracebacklimit = 0
        raise error.with_traceback(None) from None
