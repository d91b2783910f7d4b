"""Messages of a stream as arrivals: one for neighbours alike, typed as JSON rows are, numbered by the stream."""

import pyarrow as pa
import pytest

from slackwater.core.errors import SourceError
from slackwater.dissemination.messages import ArrowRows, ColumnRows, Ingest, WireScalar
from slackwater.server.streamed_rows import arrivals
from slackwater.sources.json_rows import columns

WIDE: tuple[list[WireScalar], ...] = tuple([1] for _ in range(1025))


def message(first: int, *cells: WireScalar, name: str = "k", deletes: bool = False) -> Ingest:
    return Ingest(1, "T", "s", first, len(cells), ColumnRows((name,), (list(cells),)), deletes)


def stream(batch: pa.RecordBatch, first: int = 5, count: int | None = None) -> Ingest:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    rows = ArrowRows(sink.getvalue().to_pybytes())
    return Ingest(1, "T", "s", first, batch.num_rows if count is None else count, rows)


def test_neighbours_with_the_same_columns_are_one_arrival() -> None:
    made = arrivals(
        [message(3, 1), message(4, 2, 3), message(6, 4, name="other"), message(7, 5, deletes=True)], "t", ""
    )
    assert [one.batch.to_pydict() for one in made] == [
        {"k": [1, 2, 3], "$seq": [3, 4, 5]},
        {"other": [4], "$seq": [6]},
        {"k": [5], "$seq": [7], "$op": [1]},
    ]
    assert [one.table for one in made] == ["t", "t", "t"]


@pytest.mark.parametrize(
    "cells",
    [
        [1, 2], [1.5, 2], [2**60, 1.5], ["a", None], [True, None], [None, None], [1, "a"], [True, 1], [2**63, 1],
        [2**70, 1], [0.5, True], [True, 0.5], [1, 0.5, False], ["2026-11-19T00:00:00Z"],
        [float("nan"), 1.0], [1.5, "x", None, False],
    ],
)  # fmt: skip
def test_cells_are_typed_as_in_json_rows(cells: list[WireScalar]) -> None:
    [made] = arrivals([message(0, *cells)], "t", "")
    expected = columns([{"k": cell} for cell in cells])
    assert str(made.batch.column("k")) == str(expected.column("k"))


def test_arrow_batches_are_numbered_on() -> None:
    batch = pa.RecordBatch.from_pydict({"k": ["a", "b"]})
    made = arrivals([stream(batch), stream(batch, first=7)], "t", "")
    assert [one.batch.column("$seq").to_pylist() for one in made] == [[5, 6], [7, 8]]


@pytest.mark.parametrize(
    "wrong",
    [
        stream(pa.RecordBatch.from_pydict({"k": ["a"]}), count=2),
        stream(pa.RecordBatch.from_pydict({"k": ["a", "b"]}), count=1),
        stream(pa.RecordBatch.from_pydict({"k": ["a"], "$seq": [1]})),
        stream(pa.RecordBatch.from_pydict({"k": ["a"], "$source": ["x"]})),
        stream(pa.RecordBatch.from_pydict({"k": pa.array(["a"]).dictionary_encode()})),
        Ingest(1, "T", "s", 0, 1, ArrowRows(b"nonsense")),
        Ingest(1, "T", "s", 0, 1, ColumnRows(("k", "k"), ([1], [2]))),
        Ingest(1, "T", "s", 0, 1, ColumnRows(("$op",), ([1],)), deletes=True),
        Ingest(1, "T", "s", 0, 1, ColumnRows(tuple(f"c{n}" for n in range(1025)), WIDE)),
    ],
)
def test_what_is_wrong_is_named(wrong: Ingest) -> None:
    with pytest.raises(SourceError):
        arrivals([wrong], "t", "")
