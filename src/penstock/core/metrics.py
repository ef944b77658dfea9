"""What the broker counts, in a form that any exposition can print."""

from typing import Literal

import msgspec


class Metric(msgspec.Struct, frozen=True):
    name: str
    kind: Literal["counter", "gauge"]
    help: str
    value: float
    labels: dict[str, str] = {}
