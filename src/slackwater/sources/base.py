"""Source protocol: the contract, in words, and the limits that every source keeps.

Contract

1.  A source yields `Arrival`s: Arrow columns as they came, *unchecked*. Types, encodings, keys, times and repeats
    are admission's business. A source never fails on a bad row: a bad cell is handed on as it is (text or bytes),
    a row that cannot be columns at all becomes a `Refusal` with a reason and the sequence it would have had, and
    the good rows around it arrive.
2.  A source fails, with `SourceError`, only when there is nothing to read at all: no such file, not the format it
    was said to be, no header. The message says what to do.
3.  *Identity.* Two updates with one (source, sequence) are the same update, so a source gives the same row the
    same sequence every time: reading a file again changes nothing downstream. Every batch carries `$seq`.

    ==================  =======================================================================
    long file           the number of the row, counted from 1 (header and blank lines do not count)
    wide file           row number × number of item columns + index of the item column
    generator           tick × rows a tick + index, or the ordinal of the event
    HTTP                the microsecond of the fetch + ordinal of the row in the answer
    ==================  =======================================================================

    A refusal that a longer version of the file may turn into a row (its torn last line), or that is about the
    file as a whole, has no sequence, so that the row is not taken for a repeat when it comes.

    The source's name is the file's name unless another is given. What this loses: a file whose first lines were
    cut off, or whose rows were sorted anew, is a different source, and needs another name.
4.  Memory is bounded: by a batch and the longest line, never by the length of the file.
5.  Order: arrivals come in the order of the input; sequences never decrease from one arrival to the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.arrival import Arrival, Refusal
from slackwater.core.schema import TableSchema

BATCH_ROWS = 10_000
"""How many rows an arrival holds at most, unless told otherwise."""
LONGEST_LINE = 1 << 20
"""Bytes of one CSV record or JSON line; a longer one is refused and skipped."""
KEPT_ROW = 4_096
"""Characters of a refused row that are kept."""
MOST_FIELDS = 20_000
"""Columns of a file; a wide trace may have many more than a table."""

RowNumbers: TypeAlias = npt.NDArray[np.int64]


class Source(Protocol):
    """Source of updates; the module states its contract."""

    @property
    def schema(self) -> TableSchema | None:
        """Schema of its rows, where it is known."""
        ...

    def arrivals(self) -> Iterator[Arrival]:
        """Yield what comes, from the beginning."""
        ...


@dataclass(frozen=True, slots=True)
class FileRows:
    """Output of a format reader: columns, the number of each row in the file, and the refused rows."""

    numbers: RowNumbers
    batch: pa.RecordBatch
    refused: tuple[Refusal, ...] = ()


def refuse(row: bytes | str, reason: str, detail: str, sequence: int | None) -> Refusal:
    """Make a refusal, keeping as much of the row as is useful and no more.

    >>> refuse(b"7,caf\\xe9", "wrong-field-count", "2 fields where 3 were expected", 12).row
    '7,caf�'
    """
    if isinstance(row, bytes):
        # Four bytes a character at most: never decode a megabyte to keep a page.
        row = row[: 4 * KEPT_ROW].decode("utf-8", errors="replace")
    return Refusal(row[:KEPT_ROW], reason, detail, sequence)


def empty_batch(names: tuple[str, ...] = ()) -> pa.RecordBatch:
    """No rows, for an arrival that only has refusals."""
    return pa.RecordBatch.from_arrays([pa.array([], pa.string()) for _ in names], names=list(names))
