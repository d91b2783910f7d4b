"""JSON-lines: lines that are no rows are refused one by one, mixed columns become text."""

import json
from itertools import count, islice, pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.sources.base import LONGEST_LINE
from slackwater.sources.json_lines import MOST_CELLS, JsonLinesReader
from slackwater.sources.json_rows import Fault, columns, parse

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1]", "not-an-object"),
        (b"7", "not-an-object"),
        (b"null", "not-an-object"),
        (b'"text"', "not-an-object"),
        (b'{"a": {"b": 1}}', "nested-value"),
        (b'{"a": [1]}', "nested-value"),
        (b'{"a":' * 20_000, "nested-value"),
        (b'{"a": 1, "a": 2}', "duplicate-key"),
        (b'{"a":1,"a" :2}', "duplicate-key"),
        (b'{"a":"x:y","a":1}', "duplicate-key"),
        (b'{"a\\u0062": 1, "ab": 2}', "duplicate-key"),
        (b"{}", "empty-object"),
        (b'{"a": NaN}', "not-json"),
        (b'{"a": 1e999}', "not-json"),
        (b'{"a": 1', "not-json"),
        (b"{'a': 1}", "not-json"),
        (b'{"a": "\xff"}', "wrong-encoding"),
        (b'{"a": "\\ud800"}', "not-json"),
        (b'{"$seq": 1}', "reserved-name"),
        (b'{"a": "' + b"x" * (LONGEST_LINE + 1) + b'"}', "huge-line"),
    ],
)
def test_one_bad_line_costs_one_line(line: bytes, reason: str) -> None:
    data = b'{"a": 1}\n' + line + b'\n\n{"a": 3}\n'
    batches = list(JsonLinesReader([data], "t").rows())
    assert [n for rows in batches for n in rows.numbers.tolist()] == [1, 3]
    [refusal] = [r for rows in batches for r in rows.refused]
    assert (refusal.reason, refusal.sequence) == (reason, 2)


def test_colons_in_strings_are_no_members() -> None:
    assert parse(b'{"at": "2024-01-01T00:00:00Z", "b\\":": "c:d"}') == {
        "at": "2024-01-01T00:00:00Z",
        'b":': "c:d",
    }


def test_torn_last_line_and_a_whole_one_without_line_end() -> None:
    [rows] = JsonLinesReader([b'{"a": 1}\n{"a": '], "t").rows()
    assert (rows.numbers.tolist(), rows.refused[0].reason) == ([1], "truncated-line")
    [rows] = JsonLinesReader([b'{"a": 1}\n{"a": 2}'], "t").rows()
    assert (rows.numbers.tolist(), rows.refused) == ([1, 2], ())


def test_a_huge_line_over_many_blocks() -> None:
    blocks = [b'{"a": 1}\n{"a": "', *([b"x" * 100_000] * 25), b'"}\n{"a": 3}\n']
    batches = list(JsonLinesReader(blocks, "t").rows())
    assert [n for rows in batches for n in rows.numbers.tolist()] == [1, 3]
    assert [(r.reason, r.sequence) for rows in batches for r in rows.refused] == [("huge-line", 2)]


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS, min_size=1), max_size=10),
    places=st.lists(st.integers(0, 10_000), max_size=4),
    batch_rows=st.integers(1, 12),
)
def test_every_object_arrives_wherever_blocks_are_cut(
    rows: list[dict[str, object]], places: list[int], batch_rows: int
) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode("utf-8", "surrogatepass")
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    blocks = [data[a:b] for a, b in pairwise(edges)]
    batches = list(JsonLinesReader(blocks, "t", batch_rows=batch_rows).rows())
    got: list[dict[str, object]] = [row for batch in batches for row in batch.batch.to_pylist()]
    assert len(got) == len(rows)
    assert not any(batch.refused for batch in batches)
    for found, wanted in zip(got, rows, strict=True):
        for name, value in wanted.items():
            cell = found[name]
            if isinstance(cell, str) and not isinstance(value, str):
                assert json.loads(cell) == value, "in a mixed column a scalar is its JSON text"
            else:
                assert cell == value


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_line_is_a_row_or_a_fault(line: bytes) -> None:
    found = parse(line)
    assert isinstance(found, Fault | dict)
    if isinstance(found, dict):
        assert columns([found]).num_rows == 1


@pytest.mark.parametrize(
    ("cells", "kind", "stored"),
    [
        ([1, None, 2], pa.int64(), [1, None, 2]),
        ([1, 2.5], pa.float64(), [1.0, 2.5]),
        ([2**60 + 1, 2.5], pa.string(), ["1152921504606846977", "2.5"]),
        ([1, 10**30], pa.string(), ["1", "1" + "0" * 30]),
        ([True, None], pa.bool_(), [True, None]),
        ([True, 1], pa.string(), ["true", "1"]),
        (["x", 1, 2.5, False, None], pa.string(), ["x", "1", "2.5", "false", None]),
        ([None, None], pa.null(), [None, None]),
    ],
)
def test_types_of_columns(cells: list[bool | int | float | str | None], kind: pa.DataType, stored: object) -> None:
    column = columns([{"a": cell} for cell in cells]).column(0)
    assert column.type == kind
    assert column.to_pylist() == stored


def test_rows_that_share_no_member_do_not_make_a_square_batch() -> None:
    data = b"".join(b'{"k%d": 1, "m%d": 2}\n' % (n, n) for n in range(4_000))
    batches = list(JsonLinesReader([data], "t").rows())
    assert sum(rows.batch.num_rows for rows in batches) == 4_000
    assert all(rows.batch.num_rows * rows.batch.num_columns <= MOST_CELLS for rows in batches)


def test_the_file_is_streamed() -> None:
    endless = (b'{"a": %d}\n' % n for n in count())
    batches = islice(JsonLinesReader(endless, "t", batch_rows=2).rows(), 2)
    assert [rows.batch.column(0).to_pylist() for rows in batches] == [[0, 1], [2, 3]]
