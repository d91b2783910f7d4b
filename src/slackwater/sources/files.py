"""File source: any format, wide or long."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from slackwater.core.arrival import Arrival
from slackwater.core.schema import TableSchema
from slackwater.sources.base import BATCH_ROWS, FileRows
from slackwater.sources.inference import open_rows
from slackwater.sources.read_options import Reading
from slackwater.sources.shape import Shape, long_rows, melt


class FileSource:
    """Yields the rows of a file as `reading` says; reading it again yields the same identities.

    `batch_rows` is how many updates an arrival holds at most.
    """

    def __init__(self, reading: Reading, *, batch_rows: int = BATCH_ROWS) -> None:
        if batch_rows < 1:
            raise ValueError(f"a batch holds at least one row, not {batch_rows}")
        self.reading = reading
        # A wide row becomes as many updates as there are items.
        wide = reading.shape is Shape.WIDE
        self._rows_read = max(1, batch_rows // len(reading.items)) if wide else batch_rows

    @property
    def schema(self) -> TableSchema:
        """The table."""
        return self.reading.schema

    def arrivals(self) -> Iterator[Arrival]:
        """Yield the file from its beginning."""
        reading = self.reading
        yield from shaped_arrivals(
            reading, open_rows(reading.path, reading.format, reading.delimiter, reading.names, self._rows_read)
        )


def shaped_arrivals(reading: Reading, pieces: Iterable[FileRows]) -> Iterator[Arrival]:
    """Arrivals of a file's rows, in the shape that `reading` says."""
    for rows in pieces:
        if reading.shape is Shape.WIDE and reading.time is not None:
            shaped = melt(rows, reading.items, reading.time)
        else:
            shaped = long_rows(rows)
        if shaped.batch.num_rows or shaped.refused:
            yield Arrival(
                table=reading.schema.name,
                source=reading.source,
                batch=shaped.batch,
                place=str(reading.path),
                rows=pa.array(shaped.numbers, pa.int64()),
                timezone=reading.timezone,
                refused=shaped.refused,
            )
