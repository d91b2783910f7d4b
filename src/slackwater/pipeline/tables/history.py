"""History files: rows by the UTC date of their event time, one date a file."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from slackwater.core.arrow import EVENT_TIME
from slackwater.pipeline.tables.layout import Kind, table_folder, write_parquet
from slackwater.pipeline.tables.manifest import DataFile, DatedFile
from slackwater.pipeline.tables.reports import Dated

_DAY = 24 * 3600 * 1_000_000


def time_column(kind: Kind) -> str:
    """The column whose date counts: when it happened, or when it was refused."""
    return EVENT_TIME if kind is Kind.UPDATES else "at"


def by_date(rows: pa.Table, column: str) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each date, in the order in which they stand.

    >>> rows = pa.table({"at": pa.array([0, 86_400_000_000, 1], pa.timestamp("us", "UTC")), "n": [1, 2, 3]})
    >>> [(date, part["n"].to_pylist()) for date, part in by_date(rows, "at")]
    [('1970-01-01', [1, 3]), ('1970-01-02', [2])]
    """
    days = rows.column(column).cast(pa.int64()).to_numpy() // _DAY
    if not len(days):
        return
    if days.min() == days.max():
        yield _name(days[0]), rows
        return
    order = np.argsort(days, kind="stable")
    sorted_days = days[order]
    begins = np.flatnonzero(np.r_[True, sorted_days[1:] != sorted_days[:-1]])
    for begin, end in zip(begins, [*begins[1:], len(days)], strict=True):
        yield _name(sorted_days[begin]), rows.take(pa.array(order[begin:end]))


def write_dated(
    folder: Path, kind: Kind, table: str, rows: pa.Table, name: str, span: tuple[int, int]
) -> Iterator[Dated]:
    """Write a file of this name for each date among the rows."""
    for date, part in by_date(rows, time_column(kind)):
        path = dated_path(kind, table, date, name)
        write_parquet(folder / path, part)
        yield Dated(kind, DatedFile(table, date, DataFile(path, part.num_rows, *span)))


def dated_path(kind: Kind, table: str, date: str, name: str) -> str:
    """Where a file of one table and date is kept."""
    return f"{kind.dated}/{table_folder(table)}/date={date}/{name}.parquet"


def _name(day: np.int64) -> str:
    return str(np.datetime64(int(day), "D"))
