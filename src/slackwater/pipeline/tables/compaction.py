"""Compaction policy: the small files of a date to merge, a pure function.

Files are in tiers by their number of rows, each tier four times the one below. Four files of a tier become one
file of a higher tier. So a row is written again at most once for each tier, however long the stream runs, and a
date ends with a few files. Full files are left alone.
"""

from collections.abc import Sequence
from itertools import groupby

from slackwater.pipeline.tables.manifest import DatedFile

MERGED = 4
FULL_ROWS = 1_000_000
_SMALLEST_TIER = 1_000


def tier(rows: int) -> int:
    """The tier of a file; -1 for a full one.

    >>> [tier(rows) for rows in (1, 4_000, 4_001, 999_999, 1_000_000)]
    [0, 1, 2, 5, -1]
    """
    if rows >= FULL_ROWS:
        return -1
    number, most = 0, _SMALLEST_TIER
    while rows > most:
        number, most = number + 1, most * 4
    return number


def due(files: Sequence[DatedFile], *, thorough: bool = False) -> list[list[DatedFile]]:
    """The groups of files to put together, each of one table and date.

    `thorough` puts together whatever is not full, so that most dates end with one file.
    """
    groups = []
    ordered = sorted(files, key=lambda one: (one.table, one.date, one.file.path))
    for _, same_date in groupby(ordered, key=lambda one: (one.table, one.date)):
        by_tier: dict[int, list[DatedFile]] = {}
        for one in same_date:
            level = tier(one.file.rows)
            if level >= 0:
                by_tier.setdefault(0 if thorough else level, []).append(one)
        for candidates in by_tier.values():
            groups += [group for group in _filled(candidates) if len(group) >= (2 if thorough else MERGED)]
    return groups


def _filled(files: list[DatedFile]) -> list[list[DatedFile]]:
    """Cut a list so that no group has many more rows than a full file."""
    groups: list[list[DatedFile]] = [[]]
    rows = 0
    for one in files:
        if rows >= FULL_ROWS:
            groups.append([])
            rows = 0
        groups[-1].append(one)
        rows += one.file.rows
    return groups
