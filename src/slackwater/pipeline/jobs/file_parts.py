"""File splits: parts of files that tasks read side by side.

A Parquet file is cut between row groups. A text file is one part: where its rows begin, and which number each has, is
known only to who has read everything before.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.core.arrival import Arrival
from slackwater.sources import FileSource, Format, Reading
from slackwater.sources.base import FileRows, empty_batch, refuse
from slackwater.sources.file_format import open_bytes
from slackwater.sources.files import shaped_arrivals
from slackwater.sources.parquet_file import plain

PART_ROWS = 1_000_000
"""Updates that a part has at least, where row groups are smaller."""
BATCH_ROWS = 65_536
_TEXT_ROW = 40
"""Bytes of a row of text, for a guess at how many there are."""
_SAMPLE = 65_536
_DAMAGE = (pa.ArrowException, OSError, ValueError, NotImplementedError)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """By which a file is known to be the same as before: its size, and a checksum of its beginning and its end."""

    size: int
    checksum: int

    @classmethod
    def of(cls, path: Path) -> "Fingerprint":
        """Look at a file."""
        with open_bytes(path) as file:
            head = file.read(_SAMPLE)
            size = file.seek(0, 2)
            file.seek(max(size - _SAMPLE, 0))
            return cls(size, zlib.crc32(file.read(_SAMPLE), zlib.crc32(head)))


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some row groups of a file, the first of whose rows has this number; or all of it (`groups` None)."""

    reading: Reading
    groups: tuple[int, ...] | None = None
    first_row: int = 1

    def arrivals(self) -> Iterator[Arrival]:
        """Read the part, with the numbers that reading the whole file would give."""
        if self.groups is None:
            yield from FileSource(self.reading, batch_rows=BATCH_ROWS).arrivals()
            return
        yield from shaped_arrivals(self.reading, self._rows(self.groups))

    def _rows(self, groups: tuple[int, ...]) -> Iterator[FileRows]:
        """Typed columns, batch by batch; a damaged row group is refused as a whole, as `sources` does."""
        number = self.first_row
        step = max(1, BATCH_ROWS // max(len(self.reading.items), 1))
        with pq.ParquetFile(self.reading.path, pre_buffer=False, memory_map=False) as file:
            for group in groups:
                end = number + file.metadata.row_group(group).num_rows
                try:
                    for batch in file.iter_batches(batch_size=step, row_groups=[group], use_threads=False):
                        columns = [plain(column) for column in batch.columns]
                        whole = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
                        yield FileRows(np.arange(number, number + batch.num_rows), whole)
                        number += batch.num_rows
                except _DAMAGE as error:
                    detail = f"rows {number:,} to {end - 1:,} cannot be read: {error}"
                    refusal = refuse(f"{self.reading.path} row group {group}", "damaged-rows", detail, number)
                    yield FileRows(np.empty(0, np.int64), empty_batch(), (refusal,))
                number = end


def parts_of(reading: Reading) -> list[FilePart]:
    """Cut a file into parts."""
    if reading.format is not Format.PARQUET:
        return [FilePart(reading)]
    try:
        with pq.ParquetFile(reading.path) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    except _DAMAGE:
        # Reading it as a whole raises the precise error.
        return [FilePart(reading)]
    parts: list[FilePart] = []
    held: list[int] = []
    first = number = 1
    for group, size in enumerate(sizes):
        held.append(group)
        number += size
        if (number - first) * max(len(reading.items), 1) >= PART_ROWS:
            parts.append(FilePart(reading, tuple(held), first))
            held, first = [], number
    if held:
        parts.append(FilePart(reading, tuple(held), first))
    return parts or [FilePart(reading)]


def most_keys(reading: Reading) -> int:
    """How many keys a file can have at most, about."""
    if reading.items:
        return len(reading.items)
    try:
        if reading.format is Format.PARQUET:
            return int(pq.read_metadata(reading.path).num_rows)
    except _DAMAGE:
        return 0
    return reading.path.stat().st_size // _TEXT_ROW
