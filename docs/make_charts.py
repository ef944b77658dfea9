"""Makes the pictures of docs/spark.md anew: runs its tutorial on a broker of its own, and draws what comes out.

pip install penstock[spark] matplotlib && python docs/make_charts.py
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.dates
import matplotlib.pyplot as plt

from penstock.testing import tutorial
from penstock.testing.server import running

HERE = Path(__file__).parent
COLOURS = {"ada": "#1f6f8b", "alan": "#d98e04", "grace": "#7a3e65"}


@contextlib.contextmanager
def the_tutorials_tables() -> Iterator[dict[str, object]]:
    """What the blocks of the tutorial leave behind, up to the last picture, as long as there is a broker."""
    text = (HERE / "spark.md").read_text(encoding="utf-8").rpartition("![")[0]
    namespace: dict[str, object] = {}
    folder = tempfile.mkdtemp(prefix="penstock-tutorial-")
    with running() as penstock:
        replaced = {"127.0.0.1:9876": penstock.addresses["namesrv"], "/tmp/penstock-tutorial": folder}
        for block in tutorial.blocks(tutorial.section(text, "Tutorial")):
            tutorial.run(block, namespace, replaced, "spark.md")
        yield namespace


def revenue(table: Any, into: Path) -> None:
    rows = table.toPandas()
    figure, axes = plt.subplots(figsize=(7, 3), dpi=110)
    for customer, minutes in rows.groupby("customer"):
        axes.plot(minutes["minute"], minutes["revenue"], marker="o", label=customer, color=COLOURS[customer])
    axes.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%H:%M"))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("revenue per minute")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, ncols=3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(into)


def amounts(table: Any, into: Path) -> None:
    rows = table.where("id IS NOT NULL").select("customer", "amount").toPandas()
    figure, axes = plt.subplots(figsize=(7, 3), dpi=110)
    customers = sorted(COLOURS)
    by_customer = [rows[rows["customer"] == customer]["amount"] for customer in customers]
    colours = [COLOURS[customer] for customer in customers]
    axes.hist(by_customer, bins=range(0, 1501, 150), stacked=True, label=customers, color=colours, rwidth=0.92)
    axes.set_xlabel("amount")
    axes.set_ylabel("orders")
    axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.18))
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(into)


if __name__ == "__main__":
    with the_tutorials_tables() as tables:
        revenue(tables["revenue"], HERE / "images" / "revenue.png")
        amounts(tables["shop"], HERE / "images" / "amounts.png")
