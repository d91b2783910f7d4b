"""The last row of each key, and its bucket, against plain Python."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Column, DataType, Instant, Origin, TableSchema, Update
from slackwater.core.arrow import from_batch, to_batch
from slackwater.pipeline.tables.last_row import bucket_numbers, last_rows

KEYS: dict[DataType, st.SearchStrategy[bool | int | float | str]] = {
    DataType.TEXT: st.sampled_from(["", "a", "b", "é", "\U0001f600", "\uffff"]),
    DataType.BIGINT: st.integers(-3, 3),
    DataType.DOUBLE: st.sampled_from([0.0, -0.0, 1.5, -1e300]),
    DataType.BOOLEAN: st.booleans(),
    DataType.TIMESTAMP: st.integers(-2, 2),
}


@st.composite
def updates(draw: st.DrawFn) -> tuple[TableSchema, list[Update]]:
    kinds = draw(st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=3))
    columns = tuple(Column(f"k{n}", kind, nullable=False) for n, kind in enumerate(kinds))
    table = TableSchema("t", (*columns, Column("n", DataType.BIGINT)), key=tuple(column.name for column in columns))
    count = draw(st.integers(0, 30))
    made = [
        Update(
            "t",
            (*(draw(KEYS[kind]) for kind in kinds), n),
            Instant(draw(st.integers(-2, 2))),
            # Code points above U+FFFF sort after U+FFFF, in UTF-8 and in Python, but not in UTF-16.
            Origin(draw(st.sampled_from(["a", "b", "\uffff", "\U0001f600"])), draw(st.integers(0, 3)) * 100 + n),
        )
        for n in range(count)
    ]
    return table, sorted(made, key=lambda update: update.rank) if draw(st.booleans()) else made


def table_of(table: TableSchema, made: list[Update]) -> pa.Table:
    """In several chunks, as rows come from several files."""
    middle = len(made) // 2
    return pa.Table.from_batches([to_batch(table, made[:middle]), to_batch(table, made[middle:])])


@settings(max_examples=300, deadline=None)
@given(updates())
def test_the_greatest_rank_of_each_key_stays(made: tuple[TableSchema, list[Update]]) -> None:
    table, all_updates = made
    expected: dict[object, Update] = {}
    for update in all_updates:
        key = table.key_of(update.row)
        if key not in expected or update.rank > expected[key].rank:
            expected[key] = update
    last = last_rows(table_of(table, all_updates), table)
    found = [update for batch in last.to_batches() for update in from_batch(table, batch)]
    assert sorted(u.row[-1] for u in found) == sorted(u.row[-1] for u in expected.values())  # type: ignore[type-var]


@settings(max_examples=200, deadline=None)
@given(updates())
def test_a_key_has_one_bucket_and_buckets_split_in_two(made: tuple[TableSchema, list[Update]]) -> None:
    table, all_updates = made
    rows = table_of(table, all_updates)
    eight, sixteen = (bucket_numbers(rows, table, count).tolist() for count in (8, 16))
    assert [number % 8 for number in sixteen] == eight
    assert set(bucket_numbers(rows, table, 1).tolist()) <= {0}
    by_key: dict[object, int] = {}
    for update, number in zip(all_updates, sixteen, strict=True):
        assert by_key.setdefault(table.key_of(update.row), number) == number
    # Which other rows are there, and in which order, does not matter.
    assert bucket_numbers(rows.slice(1), table, 16).tolist() == sixteen[1:]


def test_buckets_never_change_between_versions() -> None:
    """Files are laid out by these numbers: a change would lose rows."""
    table = TableSchema(
        "t", (Column("a", DataType.TEXT, nullable=False), Column("b", DataType.BIGINT, nullable=False)), key=("a", "b")
    )
    made = [Update("t", (text, n), Instant(0), Origin("s", n)) for n, text in enumerate(["IBM", "MSFT", "é", ""])]
    assert bucket_numbers(table_of(table, made), table, 1024).tolist() == [1022, 510, 759, 240]


def test_keys_are_spread_evenly() -> None:
    table = TableSchema("t", (Column("a", DataType.BIGINT, nullable=False),), key=("a",))
    made = [Update("t", (n,), Instant(0), Origin("s", n)) for n in range(8000)]
    numbers = bucket_numbers(table_of(table, made), table, 8).tolist()
    counts = [numbers.count(bucket) for bucket in range(8)]
    assert min(counts) > 850
    assert max(counts) < 1150
