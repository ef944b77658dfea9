"""The journal of what was acknowledged, kept by the producer alone, and what it says of a copy."""

from collections import Counter
from collections.abc import Iterable


class Ledger:
    """Every number is sent once, and never again, whatever becomes of it: so nowhere may it be twice."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged: set[int] = set()

    def next(self) -> int:
        self.sent += 1
        return self.sent

    def complaints(self, where: str, found: Iterable[int], whole: Iterable[int] | None = None) -> list[str]:
        """What is wrong with a copy: acknowledged and missing, there twice, never sent; and, where all that the topic
        holds is known, what it has more or less than that.
        """
        counted = Counter(found)
        missing = sorted(self.acknowledged - counted.keys())
        twice = sorted(number for number, times in counted.items() if times > 1)
        unknown = sorted(number for number in counted if not 0 < number <= self.sent)
        told = [
            f"{where}: {len(numbers)} {what}, such as {numbers[:5]}"
            for what, numbers in (
                ("acknowledged are missing", missing),
                ("are there twice", twice),
                ("were never sent", unknown),
            )
            if numbers
        ]
        differ = sorted(set(whole) ^ counted.keys()) if whole is not None else []
        return told + ([f"{where}: {len(differ)} differ from the topic, such as {differ[:5]}"] if differ else [])
