"""Melting wide rows against a loop that does it cell by cell."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core.arrival import Refusal
from slackwater.sources.base import FileRows
from slackwater.sources.shape import long_rows, melt, value_names


@settings(max_examples=150, deadline=None)
@given(
    cells=st.lists(st.lists(st.none() | st.floats(allow_nan=False), min_size=3, max_size=3), min_size=1, max_size=8),
    first=st.integers(1, 1_000),
)
def test_melt_equals_the_loop(cells: list[list[float | None]], first: int) -> None:
    items = ("a", "b", "c")
    numbers = np.arange(first, first + len(cells))
    columns = {name: pa.array([row[c] for row in cells], pa.float64()) for c, name in enumerate(items)}
    wide = pa.RecordBatch.from_pydict({"ts": pa.array(numbers), **columns})
    melted = melt(FileRows(numbers, wide), items, "ts")
    wanted = [
        {"item": name, "value": row[c], "ts": first + r, "$seq": (first + r) * 3 + c}
        for r, row in enumerate(cells)
        for c, name in enumerate(items)
        if row[c] is not None
    ]
    assert melted.batch.to_pylist() == wanted
    assert melted.numbers.tolist() == [row["ts"] for row in wanted]


@pytest.mark.parametrize(
    ("a", "b", "kind", "values"),
    [
        (pa.array([1], pa.int16()), pa.array([2], pa.int64()), pa.int64(), [1, 2]),
        (pa.array([1], pa.int64()), pa.array([2.5], pa.float32()), pa.float64(), [1.0, 2.5]),
        (pa.array([2**60 + 1]), pa.array([2.5]), pa.string(), [str(2**60 + 1), "2.5"]),
        (pa.array(["1"]), pa.array([b"\xff"]), pa.binary(), [b"1", b"\xff"]),
        (pa.array(["x"]), pa.array([2.5]), pa.string(), ["x", "2.5"]),
        (pa.nulls(1), pa.array([2.5]), pa.float64(), [2.5]),
    ],
)
def test_columns_of_different_types_lose_nothing(a: pa.Array, b: pa.Array, kind: pa.DataType, values: object) -> None:
    wide = pa.RecordBatch.from_arrays([pa.array(["now"]), a, b], names=["ts", "a", "b"])
    column = melt(FileRows(np.array([1]), wide), ("a", "b"), "ts").batch.column("value")
    assert (column.type, column.to_pylist()) == (kind, values)


def test_refusals_get_the_sequence_of_their_first_cell() -> None:
    refused = (Refusal("bad", "wrong-field-count", "…", 7), Refusal("file", "truncated-file", "…", None))
    melted = melt(FileRows(np.empty(0, np.int64), pa.RecordBatch.from_pydict({}), refused), ("a", "b", "c"), "ts")
    assert [refusal.sequence for refusal in melted.refused] == [21, None]
    assert melted.batch.num_rows == 0


def test_an_item_that_was_not_there_at_first_is_refused_and_the_others_arrive() -> None:
    wide = pa.RecordBatch.from_pydict({"ts": ["x", "y"], "a": [1.0, 2.0], "new": [None, 9.0]})
    melted = melt(FileRows(np.array([1, 2]), wide), ("a",), "ts")
    assert melted.batch.column("value").to_pylist() == [1.0, 2.0]
    [refusal] = melted.refused
    assert (refusal.reason, refusal.row) == ("unknown-item", "new=9.0")


def test_a_time_column_called_value() -> None:
    assert value_names("Value") == ("item", "value_")
    assert value_names("item") == ("item_", "value")


def test_long_rows_are_numbered() -> None:
    rows = FileRows(np.array([3, 5]), pa.RecordBatch.from_pydict({"a": [1, 2]}))
    assert long_rows(rows).batch.to_pydict() == {"a": [1, 2], "$seq": [3, 5]}
