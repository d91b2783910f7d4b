"""Rows by the UTC date of their event time."""

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.pipeline.tables.history import by_date

DAY = 24 * 3600 * 1_000_000


@settings(deadline=None)
@given(st.lists(st.integers(-3 * DAY, 3 * DAY) | st.sampled_from([-1, 0, DAY - 1, DAY])))
def test_every_row_stands_once_under_its_date_in_order(micros: list[int]) -> None:
    rows = pa.table({"t": pa.array(micros, pa.timestamp("us", "UTC")), "n": pa.array(range(len(micros)), pa.int64())})
    parts = dict(by_date(rows, "t"))
    expected: dict[str, list[int]] = {}
    for n, micro in enumerate(micros):
        date = datetime.fromtimestamp(micro // 1_000_000, UTC).date().isoformat()
        expected.setdefault(date, []).append(n)
    assert {date: part["n"].to_pylist() for date, part in parts.items()} == expected
