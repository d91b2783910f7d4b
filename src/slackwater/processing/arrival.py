"""Single-row fold: the compiled path for a batch of one row, the usual batch of a live source."""

import ctypes
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from slackwater.core.types import DataType
from slackwater.core.update import Operation
from slackwater.kernels import row_arrival as kernel
from slackwater.kernels.key_table import Letters
from slackwater.kernels.row_arrival import Ranks
from slackwater.processing.base import Flags, Integers
from slackwater.processing.columns import PLAIN, Cells, StoredColumn
from slackwater.processing.key_index import KeyTable

_address_of = ctypes.pythonapi.PyCapsule_GetPointer
_address_of.restype, _address_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

_UPSERT = int(Operation.UPSERT)

Row = tuple[Cells, Flags, DataType]


class RowFold:
    """What folding a row needs to know of a table, until its arrays move."""

    def __init__(self, width: int, key: int, columns: Sequence[tuple[int, str, StoredColumn]], ranks: Ranks) -> None:
        self._width, self._key, self._ranks = width, key, ranks
        self._names = [(name, column.kind, column.values.dtype) for _, name, column in columns]
        self._places = np.array([place for place, _, _ in columns], np.int64)
        self._are_numbers = np.array([column.kind is DataType.DOUBLE for _, _, column in columns], np.bool_)
        arrays = [array for _, _, column in columns for array in (column.values, column.valid)]
        self._held = arrays
        """The addresses are good for as long as these are there."""
        self._stored: Integers = np.array([array.ctypes.data for array in arrays], np.int64)

    @staticmethod
    def is_possible(columns: Sequence[tuple[int, str, StoredColumn]]) -> bool:
        """Whether all columns have cells of 64 bits."""
        return all(column.kind in PLAIN for _, _, column in columns)

    def fold(
        self, batch: pa.RecordBatch, keys: KeyTable, source: Letters, code: int
    ) -> tuple[int, Flags, dict[str, Row], dict[str, Row]]:
        """Fold the row of a batch: its slot, whether there was and is a row, and its cells before and after."""
        cells, valid = np.empty((2, len(self._names)), np.int64), np.empty((2, len(self._names)), np.bool_)
        had_has = np.empty(2, np.bool_)
        _, capsule = batch.__arrow_c_array__()
        slot = kernel.fold_row(
            _address_of(capsule, b"arrow_array"),
            self._width,
            self._key,
            self._places,
            self._are_numbers,
            self._stored,
            *keys,
            source,
            code,
            _UPSERT,
            self._ranks,
            cells,
            valid,
            had_has,
        )
        before: dict[str, Row] = {}
        after: dict[str, Row] = {}
        count = 1 if slot >= 0 else 0
        for k, (name, kind, dtype) in enumerate(self._names):
            before[name] = cells[0, k : k + count].view(dtype), valid[0, k : k + count], kind
            after[name] = cells[1, k : k + count].view(dtype), valid[1, k : k + count], kind
        return slot, had_has, before, after
