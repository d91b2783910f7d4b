"""Columns brought into order, whatever they come as."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import StatisticsError
from slackwater.statistics import Ticks

rows = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-5, 5), st.integers(0, 99).map(float)), max_size=40)


@settings(max_examples=200, deadline=None)
@given(rows, st.sampled_from(["as drawn", "by time", "by item"]), st.booleans())
def test_rows_are_brought_into_order_and_equal_times_keep_theirs(
    drawn: list[tuple[str, int, float]], order: str, encoded: bool
) -> None:
    if order == "by time":
        drawn = sorted(drawn, key=lambda row: row[1])
    elif order == "by item":
        drawn = sorted(drawn, key=lambda row: row[:2])
    items: Any = pa.array([row[0] for row in drawn], pa.string())
    ticks = Ticks.of(
        items.dictionary_encode() if encoded else items,
        np.array([row[1] for row in drawn], np.int64),
        np.array([row[2] for row in drawn], np.float64),
    )
    assert sorted(ticks.names) == sorted({row[0] for row in drawn})
    for g, name in enumerate(ticks.names):
        own = slice(ticks.starts[g], ticks.starts[g + 1])
        expected = sorted((row[1:] for row in drawn if row[0] == name), key=lambda pair: pair[0])
        assert list(zip(ticks.times[own].tolist(), ticks.values[own].tolist(), strict=True)) == expected
    assert ticks.items.tolist() == [g for g in range(len(ticks.names)) for _ in range(*ticks.starts[g : g + 2])]


def test_arrow_columns_of_many_types() -> None:
    moments = [datetime(2026, 1, 1, second=second, tzinfo=UTC) for second in (2, 1)]
    table = pa.table(
        {
            "symbol": pa.chunked_array([pa.array(["x"]).dictionary_encode(), pa.array(["y"]).dictionary_encode()]),
            "at": pa.array(moments, pa.timestamp("ms", tz="UTC")),
            "price": pa.array([3, 4], pa.int32()),
        }
    )
    ticks = Ticks.from_arrow(table, "symbol", "at", "price")
    assert ticks.names == ("x", "y")
    assert (ticks.times[0] - ticks.times[1], ticks.values.tolist()) == (1_000_000, [3.0, 4.0])
    assert Ticks.of(pa.array([7, 5]), [1, 1], [1.0, 2.0]).names == ("7", "5")


def test_a_dictionary_may_hold_names_that_do_not_occur_or_occur_twice() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([3, 1, 3]), pa.array(["unused", "a", "unused too", "a"]))
    ticks = Ticks.of(encoded, [3, 2, 1], [1.0, 2.0, 3.0])
    assert (ticks.names, ticks.values.tolist()) == (("a",), [3.0, 2.0, 1.0])


def test_a_null_value_is_no_update() -> None:
    ticks = Ticks.of(["a", "b", "a"], [1, 2, 3], [1.0, None, 2.0])
    assert (ticks.names, ticks.times.tolist()) == (("a",), [1, 3])


def test_huge_values_are_cut() -> None:
    assert Ticks.of(["a", "a"], [1, 2], [1e300, -1e300]).values.tolist() == [1e150, -1e150]


@pytest.mark.parametrize(
    ("items", "times", "values", "message"),
    [
        (["a", None], [1, 2], [1.0, 2.0], "without an item"),
        (["a", "b"], [1, None], [1.0, 2.0], "without an item or a time"),
        (["a"], [1, 2], [1.0], "equal length"),
        (["a"], [1.5], [1.0], "whole microseconds"),
        (["a"], [1], ["warm"], "must be numbers"),
        (["a"], [1], [float("nan")], "finite"),
        (["a", "a"], [1, 2], [1.0, float("inf")], "finite"),
    ],
)
def test_what_cannot_be_counted_is_refused(items: Any, times: Any, values: Any, message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        Ticks.of(items, times, values)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(StatisticsError, match=r"'value'.*item, time"):
        Ticks.from_arrow(pa.table({"item": ["a"], "time": [1]}))


def test_taking_a_stretch_of_time() -> None:
    ticks = Ticks.of(["a", "a", "b"], [1, 5, 9], [1.0, 2.0, 3.0])
    part = ticks.take(5, 9)
    assert (part.names, part.starts.tolist(), part.values.tolist()) == (("a",), [0, 1], [2.0])
    assert len(part.take(0, 1)) == 0
    assert len(part.take(0, 1).take(0, 1)) == 0
