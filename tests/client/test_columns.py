"""Rows by names and as tables."""

import sys
from datetime import UTC, datetime

import pytest

from slackwater.client.columns import Columns
from slackwater.core.errors import MissingPart, ProtocolError

COLUMNS = Columns(("k", "t", "x"), ("BIGINT", "TIMESTAMP", "DOUBLE"))
RECORD = {"k": 1, "t": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "x": None}


def test_times_by_number_and_by_text() -> None:
    assert COLUMNS.record((1, 1_000_000, None)) == RECORD
    assert COLUMNS.record((1, "1970-01-01T00:00:01+00:00", None)) == RECORD
    with pytest.raises(ProtocolError, match="a row of 2 values"):
        COLUMNS.record((1, 2))
    with pytest.raises(ProtocolError, match="where a time was expected"):
        COLUMNS.record((1, "soon", 2.0))


def test_tables_keep_their_types_without_rows() -> None:
    assert [str(kind) for kind in COLUMNS.arrow([]).schema.types] == ["int64", "timestamp[us, tz=UTC]", "double"]
    assert list(COLUMNS.pandas([RECORD])["k"]) == [1]


@pytest.mark.parametrize(("part", "advice"), [("pyarrow", r"slackwater\[cache\]"), ("pandas", "pip install")])
def test_a_missing_part_is_named(monkeypatch: pytest.MonkeyPatch, part: str, advice: str) -> None:
    import pyarrow.pandas_compat  # noqa: F401  so that only the part itself is missing below

    table = COLUMNS.arrow([RECORD])
    monkeypatch.setitem(sys.modules, part, None)
    if part == "pandas":

        class Table:
            def to_pandas(self) -> object:
                import pandas

                return pandas

        monkeypatch.setattr(Columns, "arrow", lambda self, records: Table())
    assert table.num_rows == 1
    with pytest.raises(MissingPart, match=advice):
        COLUMNS.pandas([RECORD])
