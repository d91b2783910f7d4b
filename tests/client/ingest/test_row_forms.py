"""Forms of rows as columns: what is sent of each, and what is refused by name; also without pyarrow."""

import builtins
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from slackwater.client.ingest.row_forms import MOST_ROWS, exports_arrow, pieces, records
from slackwater.core.errors import MissingPart
from slackwater.dissemination.messages import ColumnRows

NAMES = ("k", "v")


@pytest.fixture
def without_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install: whoever imports pyarrow here fails."""
    whole = builtins.__import__

    def guarded(name: str, *arguments: Any, **more: Any) -> Any:
        if name.split(".")[0] == "pyarrow":
            raise ImportError(name)
        return whole(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", guarded)


def test_cells_are_plain_values_of_the_wire() -> None:
    moment = datetime(2026, 11, 19, 12, tzinfo=UTC)
    cells = [
        1,
        True,
        1.5,
        "a",
        None,
        moment,
        date(2026, 11, 19),
        Decimal("1.5"),
        UUID(int=7),
        np.int64(3),
        np.float32(2),
    ]
    [made] = pieces([(cell,) for cell in cells], ("k",))
    assert isinstance(made, ColumnRows)
    assert made.values[0] == [
        1, True, 1.5, "a", None, "2026-11-19T12:00:00Z", "2026-11-19", "1.5", str(UUID(int=7)), 3, 2.0,
    ]  # fmt: skip
    assert {type(cell) for cell in made.values[0]} <= {int, bool, float, str, type(None)}


def test_numbers_beyond_64_bits_are_text_for_the_server_to_refuse() -> None:
    [made] = pieces([{"k": 2**70}, {"k": 1}])
    assert isinstance(made, ColumnRows)
    assert made.values == ([str(2**70), 1],)


def test_rows_come_in_pieces_and_generators_are_read_as_they_are_sent() -> None:
    read: list[int] = []

    def rows() -> Any:
        for number in range(3 * MOST_ROWS):
            read.append(number)
            yield (number,)

    made = pieces(rows(), ("k",))
    first = next(made)
    assert isinstance(first, ColumnRows)
    assert len(first.values[0]) == MOST_ROWS == len(read)
    assert len(list(made)) == 2
    assert list(pieces([])) == []


@pytest.mark.parametrize("cell", [float("inf"), float("nan"), np.float64("nan"), [1], {"a": 1}, object()])
def test_what_cannot_be_sent_is_named_with_its_column(cell: object) -> None:
    with pytest.raises(ValueError, match="column v"):
        list(pieces([{"k": 1, "v": cell}]))


@pytest.mark.parametrize("rows", [[("a", 1), ("b",)], [("a", 1, 2)], [("a", 1), {"k": "a"}]])
def test_tuples_have_as_many_values_as_there_are_names(rows: list[Any]) -> None:
    with pytest.raises(ValueError, match="a row has 2 values, k, v"):
        list(pieces(rows, NAMES))


@pytest.mark.parametrize("names", [None, (), "kv"])
def test_tuples_need_names(names: Any) -> None:
    with pytest.raises(ValueError, match="columns="):
        list(pieces([("a", 1)], names))
    with pytest.raises(ValueError, match="columns="):
        list(records([("a", 1)], names))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"k": ["a", "b"], "v": [1.0, float("nan")]}, index=[3, 4]),
        pl.DataFrame({"k": ["a", "b"], "v": [1.0, None]}),
    ],
    ids=["pandas", "polars"],
)
@pytest.mark.usefixtures("without_arrow")
def test_data_frames_without_arrow_are_columns(frame: Any) -> None:
    assert exports_arrow(frame)
    assert list(pieces(frame)) == [ColumnRows(NAMES, (["a", "b"], [1.0, None]))]


@pytest.mark.usefixtures("without_arrow")
def test_an_arrow_table_needs_arrow() -> None:
    with pytest.raises(MissingPart, match="pyarrow"):
        list(pieces(pa.table({"k": [1]})))


def test_data_frames_lose_the_nameless_index_and_keep_the_named_one() -> None:
    nameless = pd.DataFrame({"k": ["a"], "v": [1.0]}, index=[3])
    named = pd.DataFrame({"v": [1.0]}, index=pd.Index(["a"], name="k"))
    for frame in (nameless, named):
        [batch] = pieces(frame)
        assert sorted(batch.schema.names) == ["k", "v"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.duration("s"), pa.time64("us"), pa.struct([("a", pa.int64())])]
)
def test_arrow_types_that_no_column_has_are_named(kind: Any) -> None:
    with pytest.raises(ValueError, match="column v is of type"):
        list(pieces(pa.table({"v": pa.nulls(2, kind)})))
