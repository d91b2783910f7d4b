"""Batch columns: the columns of a batch as arrays, each converted from Arrow once."""

import numpy as np
import pyarrow as pa

from slackwater.processing.base import Flags, Floats, RowCells
from slackwater.processing.columns import Cells, unpacked


class Sheet:
    """Rows of a batch; `present` flags the ones that exist."""

    def __init__(self, rows: pa.RecordBatch | RowCells, present: Flags) -> None:
        self._rows = rows
        self.present = present
        self._cells: dict[str, tuple[Cells, Flags]] = {}

    def __len__(self) -> int:
        return len(self.present)

    def cells(self, column: str) -> tuple[Cells, Flags]:
        """The values of a column, and which of them there are."""
        found = self._cells.get(column)
        if found is None:
            rows = self._rows
            found = unpacked(rows.column(column)) if isinstance(rows, pa.RecordBatch) else rows.cells(column)
            self._cells[column] = found
        return found

    def numbers(self, column: str | None) -> Floats:
        """A column as numbers to add up, NaN where there is none; what is no number, or no column at all, counts 1."""
        if column is None:
            numbers: Floats = np.ones(len(self.present))
            numbers[~self.present] = np.nan
            return numbers
        values, there = self.cells(column)
        is_number = values.dtype.kind in "if"
        numbers = values.astype(np.float64) if is_number else np.ones(len(values))
        valid = self.present & there
        if np.count_nonzero(valid) < len(valid):
            numbers[~valid] = np.nan
        return numbers
