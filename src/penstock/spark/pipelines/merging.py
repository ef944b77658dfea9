"""Small files of a table become few large ones, and every reader sees each row once all the while.

Files of a folder are grouped by size; eight of one size become one of the next, so a row is written again three times
at the most, however small the batches are. The folder with the merged file is built aside, with links to what stays,
and the two folders change places in one step of the file system. Whoever lists the folder gets the one or the other. A
reader that listed it before and opens a file of it afterwards gets an error, not wrong rows, and reads again.

What a kill leaves is aside, either the folder that was being built or the one that was replaced: garbage in both cases,
which `Table` clears when it is opened. Where folders cannot change places in one step, nothing is merged.
"""

import ctypes
import errno
import logging
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.spark.pipelines.files import Written, parquet_files, synced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB = 1 << 20
TIERS_BYTES = (1 * MIB, 8 * MIB, 64 * MIB)  # below each; what is larger stays as it is
FILES_PER_TIER = 8
_AT_FDCWD, _EXCHANGE = -100, 2  # Linux; macOS calls its own RENAME_SWAP, and numbers it alike
_NO_SWAP = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EXDEV)
log = logging.getLogger(__name__)


class MergeFailed(PenstockError):
    """Merged files have not the rows that went into them; nothing was replaced."""


def worth_merging(files: Iterable[Written], per_tier: int = FILES_PER_TIER) -> list[list[Written]]:
    """Groups of files that should become one each. Pure."""
    tiers: dict[int, list[Written]] = {}
    for one in files:
        tier = sum(one.size_bytes >= limit for limit in TIERS_BYTES)
        if tier < len(TIERS_BYTES):
            tiers.setdefault(tier, []).append(one)
    return [tiers[tier] for tier in sorted(tiers) if len(tiers[tier]) >= per_tier]


def merge(
    spark: "SparkSession", folder: Path, aside: Path, order: Sequence[str] = (), per_tier: int = FILES_PER_TIER
) -> int:
    """Merge the small files of one folder, where there are many; returns how many files became fewer."""
    files = list(parquet_files(folder))
    groups = worth_merging(files, per_tier)
    if not groups or not can_swap(aside):
        return 0
    made, gone = aside / "made", {one.source for group in groups for one in group}
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    for one in files:
        if one.source not in gone:
            os.link(folder / one.source, made / one.source)
    for group in groups:
        os.rename(_merged(spark, folder, group, aside / "one", order), made / f"merged-{group[-1].source}")
    new = list(parquet_files(made))
    if sum(one.rows for one in new) != sum(one.rows for one in files):
        raise MergeFailed(f"the files of {folder} were merged into another number of rows: nothing was replaced")
    synced(made, new)
    swap(made, folder)
    synced(folder, [])
    shutil.rmtree(aside)
    return len(files) - len(new)


def _merged(spark: "SparkSession", folder: Path, group: list[Written], into: Path, order: Sequence[str]) -> Path:
    paths = [str(folder / one.source) for one in group]
    rows = spark.read.option("mergeSchema", "true").parquet(*paths).coalesce(1)
    rows = rows.sortWithinPartitions(*order) if order else rows
    rows.write.mode("overwrite").parquet(str(into))
    (only,) = into.glob("*.parquet")
    return only


# --- two folders change places ----------------------------------------------------------------------------------------


def swap(one: Path, other: Path) -> None:
    """Two folders of one file system change places at once; OSError where that cannot be done."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        failed = libc.renamex_np(*names, ctypes.c_uint(_EXCHANGE))
    elif hasattr(libc, "renameat2"):
        at = ctypes.c_int(_AT_FDCWD)
        failed = libc.renameat2(at, names[0], at, names[1], ctypes.c_uint(_EXCHANGE))
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(one), None, str(other))


def can_swap(aside: Path) -> bool:
    """Tried with two folders that nobody reads."""
    pair = aside / "this", aside / "that"
    for place in pair:
        place.mkdir(parents=True, exist_ok=True)
    try:
        swap(*pair)
    except OSError as error:
        if error.errno not in _NO_SWAP:
            raise
        log.warning("small files stay as they are: the file system of %s cannot exchange folders", aside)
        return False
    return True
