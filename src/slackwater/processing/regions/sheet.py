"""Batch columns: the columns of a batch as arrays, each converted from Arrow once."""

import numpy as np
import pyarrow as pa

from slackwater.processing.base import Flags, Floats
from slackwater.processing.columns import Cells, unpacked


class Sheet:
    """Rows of a batch; `present` flags the ones that exist."""

    def __init__(self, rows: pa.RecordBatch, present: Flags) -> None:
        self._rows = rows
        self.present = present
        self._cells: dict[str, tuple[Cells, Flags]] = {}

    def __len__(self) -> int:
        return len(self.present)

    def cells(self, column: str) -> tuple[Cells, Flags]:
        """The values of a column, and which of them there are."""
        found = self._cells.get(column)
        if found is None:
            found = self._cells[column] = unpacked(self._rows.column(column))
        return found

    def numbers(self, column: str | None) -> Floats:
        """A column as numbers to add up, NaN where there is none; what is no number, or no column at all, counts 1."""
        numbers: Floats = np.ones(len(self.present))
        valid = self.present
        if column is not None:
            values, there = self.cells(column)
            valid = valid & there
            if values.dtype in (np.int64, np.float64):
                numbers = values.astype(np.float64)
        numbers[~valid] = np.nan
        return numbers
