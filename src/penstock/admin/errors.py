"""What an operator cannot have, each with what to do instead."""

from penstock.errors import PenstockError


class AdminError(PenstockError):
    """The base of all."""


class NoEngine(AdminError):
    """An address that names no engine we know."""


class NotThere(AdminError):
    """A topic, group or message that does not exist."""


class AlreadyThere(AdminError):
    """What is to be created exists."""


class NotPossible(AdminError):
    """This engine, or this version of it, cannot do what was asked; or not in this state."""


class Unreadable(NotPossible):
    """What is kept with an engine was written by somebody else."""


class BadPlace(AdminError):
    """A place in a queue that cannot be understood."""


class NotSent(AdminError):
    """A message that could not be stored."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"message {number} could not be stored, the {number - 1} before it are: {why}")
        self.number = number
