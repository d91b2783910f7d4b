"""Arrival: unchecked columns of rows on their way from a source to admission, with the name of the source.

Needs the `node` extra, as `core.arrow` does.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that could not even be turned into columns: a torn line, a wrong number of fields."""

    row: str
    reason: str
    detail: str
    sequence: int | None


@dataclass(frozen=True, slots=True)
class RequestKey:
    """Idempotency key of a request, and a digest of the request's content: a key stands for one content."""

    key: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Arrival:
    """Rows for one table from one source, before any check.

    `batch` has columns by name, of whatever Arrow types the source found (text from CSV, for example), and may
    hold any of the provenance columns of `core.arrow`: `$seq` where the source numbers its rows itself, `$time`
    where the event time is not a column of the table, `$op` where rows are deleted. `$source` is never a column
    here: one arrival has one `source`.

    `place` says where the rows come from in words a person can follow (a file, an address); `rows` are the numbers
    of the batch's rows there, counted from 1 (without them the rows of the batch itself are counted). `timezone` is
    the zone of times that carry none.

    A reader that decodes by the table's schema gives `original`, which makes the arrival anew with its columns as they
    came: what is refused is then shown as it came.
    """

    table: str
    source: str
    batch: pa.RecordBatch
    place: str
    rows: pa.Array | None = None
    timezone: str | None = None
    refused: tuple[Refusal, ...] = ()
    original: "Callable[[], Arrival] | None" = None
