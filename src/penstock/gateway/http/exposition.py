r"""Metrics in the Prometheus text format, version 0.0.4.

    # HELP penstock_messages_in_total Messages stored.
    # TYPE penstock_messages_in_total counter
    penstock_messages_in_total{topic="a\"b"} 7

All samples of one name stand together below one HELP and one TYPE, whatever order they came in: the format asks for it.
"""

import math
from collections.abc import Iterable

from penstock.core.metrics import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def rendered(metrics: Iterable[Metric]) -> bytes:
    families: dict[str, list[Metric]] = {}
    for metric in metrics:
        families.setdefault(metric.name, []).append(metric)
    lines = [line for family in families.values() for line in _family(family)]
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _family(metrics: list[Metric]) -> list[str]:
    first = metrics[0]
    head = [f"# HELP {first.name} {first.help.translate(_IN_HELP)}", f"# TYPE {first.name} {first.kind}"]
    return head + [f"{metric.name}{_labels(metric.labels)} {_number(metric.value)}" for metric in metrics]


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_IN_LABEL)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
    return str(value)
