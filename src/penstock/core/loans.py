"""Work that is done outside of the event loop for a while, on what the broker has lent out for it, and that is noted
when it is over.

Whoever is about to change or to look at what such work relies on or brings about takes everything back first: then
all is noted, and nothing goes on unseen.
"""

from typing import Protocol

from penstock.core.events import Event


class Lender(Protocol):
    def take_all_back(self) -> None:
        """End what is lent; note what was done. Costs nothing when there is nothing."""

    def close(self) -> None:
        """Nothing is lent any more."""


class Loans:
    def __init__(self) -> None:
        self._lenders: list[Lender] = []

    def add(self, lender: Lender) -> None:
        self._lenders.append(lender)

    def take_back(self) -> None:
        for lender in self._lenders:
            lender.take_all_back()

    def on_event(self, event: Event) -> None:
        """Something has changed, whoever did it."""
        self.take_back()

    def close(self) -> None:
        for lender in self._lenders:
            lender.close()
        self._lenders.clear()
