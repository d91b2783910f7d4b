"""Every row ends in one of three places, with the reason, and no bad row touches its neighbours."""

import math
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.admission import Limits, Reason, Seen, admit
from slackwater.core import Column, DataType, Instant, Operation, TableSchema, instant
from slackwater.core.arrival import Arrival, Refusal
from slackwater.core.arrow import QUARANTINE, from_batch, update_schema

NOW = instant(datetime(2026, 3, 1, 12, tzinfo=UTC))
AT = datetime(2026, 3, 1, 11, tzinfo=UTC)
QUOTES = TableSchema(
    "quotes",
    (
        Column("symbol", DataType.TEXT, nullable=False),
        Column("price", DataType.DOUBLE, nullable=False),
        Column("size", DataType.BIGINT),
        Column("open", DataType.BOOLEAN),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("symbol",),
    event_time="at",
)
GOOD: dict[str, object] = {"symbol": "IBM", "price": 130.5, "size": 100, "open": True, "at": AT}


def arrival(columns: dict[str, pa.Array], *, numbered: bool = True, first: int = 0, **kwargs: object) -> Arrival:
    rows = len(next(iter(columns.values())))
    if numbered and "$seq" not in columns:
        columns = {**columns, "$seq": pa.array(range(first, first + rows), pa.int64())}
    return Arrival("quotes", "feed", pa.RecordBatch.from_pydict(columns), "feed.csv", **kwargs)  # type: ignore[arg-type]


def between_good_ones(**cells: pa.Array) -> dict[str, pa.Array]:
    """Three rows, the middle one with the given one-cell columns."""
    columns = {}
    for name, value in GOOD.items():
        if name not in cells:
            columns[name] = pa.array([value] * 3)
        elif pa.types.is_binary(cells[name].type) or pa.types.is_string(cells[name].type):
            text = str(value.isoformat() if isinstance(value, datetime) else value).encode()
            columns[name] = pa.array([text, cells[name].cast(pa.binary())[0].as_py(), text], pa.binary())
        else:
            same = pa.array([value]).cast(cells[name].type)
            columns[name] = pa.concat_arrays([same, cells[name], same])
    return columns


MALFORMED = [
    ("text for a number", {"price": pa.array(["abc"])}, Reason.WRONG_TYPE),
    ("text for a whole number", {"size": pa.array(["1.5"])}, Reason.WRONG_TYPE),
    ("a fraction for a whole number", {"size": pa.array([1.5])}, Reason.WRONG_TYPE),
    ("text for a boolean", {"open": pa.array(["perhaps"])}, Reason.WRONG_TYPE),
    ("a number for a boolean", {"open": pa.array([2])}, Reason.WRONG_TYPE),
    ("a whole number beyond 64 bits", {"size": pa.array(["99999999999999999999"])}, Reason.WRONG_TYPE),
    ("null key", {"symbol": pa.array([None], pa.string())}, Reason.MISSING_KEY),
    ("null in NOT NULL", {"price": pa.array([None], pa.float64())}, Reason.MISSING_VALUE),
    ("empty text in NOT NULL", {"price": pa.array([""])}, Reason.MISSING_VALUE),
    ("not a number", {"price": pa.array([math.nan])}, Reason.NOT_FINITE),
    ("not a number, as text", {"price": pa.array(["nan"])}, Reason.NOT_FINITE),
    ("infinite", {"price": pa.array([-math.inf])}, Reason.NOT_FINITE),
    ("year 1201", {"at": pa.array([datetime(1201, 1, 1, tzinfo=UTC)])}, Reason.ABSURD_TIME),
    ("next year", {"at": pa.array(["2027-03-01T00:00:00Z"])}, Reason.TIME_AHEAD),
    ("no time", {"at": pa.array([None], pa.timestamp("us", tz="UTC"))}, Reason.MISSING_TIME),
    ("a time that is none", {"at": pa.array(["yesterday"])}, Reason.WRONG_TYPE),
    ("wrong encoding in a key", {"symbol": pa.array([b"IB\xff"])}, Reason.WRONG_ENCODING),
    ("wrong encoding in a number", {"price": pa.array([b"1\xfe"])}, Reason.WRONG_ENCODING),
    ("huge field", {"symbol": pa.array(["x" * 65_537])}, Reason.HUGE_FIELD),
]


@pytest.mark.parametrize(("cells", "reason"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED])
def test_a_malformed_row_is_quarantined_and_its_neighbours_arrive(cells: dict[str, pa.Array], reason: Reason) -> None:
    # Only a zone can make the good rows' text times good here.
    result = admit(arrival(between_good_ones(**cells), timezone="UTC"), QUOTES, Seen(), NOW)
    assert [update.origin.sequence for update in from_batch(QUOTES, result.accepted)] == [0, 2]
    assert result.quarantined.schema == QUARANTINE
    (refused,) = result.quarantined.to_pylist()
    assert refused["reason"] == reason
    assert refused["place"] == "feed.csv, row 2"
    assert refused["$seq"] == 1
    assert next(iter(cells)) in refused["detail"]
    assert len(refused["row"]) <= Limits().kept_row


def test_a_whole_column_of_the_wrong_type_refuses_each_row() -> None:
    columns = {**between_good_ones(), "price": pa.array([[1.0], None, [2.0]], pa.list_(pa.float64()))}
    result = admit(arrival(columns), QUOTES, Seen(), NOW)
    assert [row["reason"] for row in result.quarantined.to_pylist()] == ["wrong-type", "missing-value", "wrong-type"]


def test_numbers_are_not_taken_for_times() -> None:
    result = admit(arrival({**between_good_ones(), "at": pa.array([1, 2, 3])}), QUOTES, Seen(), NOW)
    assert {row["reason"] for row in result.quarantined.to_pylist()} == {"wrong-type"}


def test_a_missing_key_column_refuses_every_row() -> None:
    columns = between_good_ones()
    del columns["symbol"]
    result = admit(arrival(columns), QUOTES, Seen(), NOW)
    assert [row["reason"] for row in result.quarantined.to_pylist()] == ["missing-key"] * 3


@pytest.mark.parametrize("bad", [None, -1, 2**62 + 1])
def test_a_sequence_that_cannot_be_used(bad: int | None) -> None:
    columns = {**between_good_ones(), "$seq": pa.array([0, bad, 2], pa.int64())}
    result = admit(arrival(columns), QUOTES, Seen(), NOW)
    (refused,) = result.quarantined.to_pylist()
    assert (refused["reason"], refused["$seq"], result.accepted.num_rows) == ("bad-sequence", None, 2)


def test_an_unknown_operation() -> None:
    columns = {**between_good_ones(), "$op": pa.array([0, 7, 1])}
    result = admit(arrival(columns), QUOTES, Seen(), NOW)
    assert [row["reason"] for row in result.quarantined.to_pylist()] == ["bad-operation"]
    assert [update.operation for update in from_batch(QUOTES, result.accepted)] == [Operation.UPSERT, Operation.DELETE]


def test_a_deletion_needs_only_its_key() -> None:
    columns = {"symbol": pa.array(["IBM"]), "price": pa.array(["rubbish"]), "$op": pa.array([1])}
    (update,) = from_batch(QUOTES, admit(arrival(columns), QUOTES, Seen(), NOW).accepted)
    assert (update.row, update.event_time) == (("IBM", None, None, None, None), NOW)


def test_rows_the_reader_could_not_split_are_kept_once() -> None:
    torn = Refusal('{"symbol": "IB', "not-json", "line 4 ends in the middle of a text", sequence=3)
    sent = arrival(between_good_ones(), refused=(torn,))
    first = admit(sent, QUOTES, Seen(), NOW)
    assert (first.accepted.num_rows, first.quarantined.num_rows, first.repeats) == (3, 1, 0)
    again = admit(sent, QUOTES, first.seen, NOW)
    assert (again.accepted.num_rows, again.quarantined.num_rows, again.repeats) == (0, 0, 4)


def test_a_torn_line_without_a_number_is_kept_once_too() -> None:
    torn = Refusal('{"symbol": "IB', "truncated-file", "the last line has no end", sequence=None)
    sent = arrival(between_good_ones(), refused=(torn,))
    first = admit(sent, QUOTES, Seen(), NOW)
    assert (first.accepted.num_rows, first.quarantined.num_rows, first.repeats) == (3, 1, 0)
    again = admit(sent, QUOTES, first.seen, NOW)
    assert (again.accepted.num_rows, again.quarantined.num_rows, again.repeats) == (0, 0, 4)


def test_places_are_those_of_the_source() -> None:
    columns = between_good_ones(price=pa.array([math.nan]))
    result = admit(arrival(columns, rows=pa.array([7, 12, 13])), QUOTES, Seen(), NOW)
    assert result.quarantined.column("place").to_pylist() == ["feed.csv, row 12"]


def test_columns_that_the_table_does_not_have_are_named() -> None:
    result = admit(arrival({**between_good_ones(), "colour": pa.array(["red"] * 3)}), QUOTES, Seen(), NOW)
    assert (result.accepted.num_rows, result.ignored_columns) == (3, ("colour",))


def test_naive_times_need_a_zone() -> None:
    columns = {**between_good_ones(), "at": pa.array(["2026-03-01 11:00", "2026-03-01T11:00:00Z", "2026-03-01"])}
    without = admit(arrival(columns), QUOTES, Seen(), NOW)
    assert [row["reason"] for row in without.quarantined.to_pylist()] == ["naive-time", "naive-time"]
    given = admit(arrival(columns, timezone="Asia/Shanghai"), QUOTES, Seen(), NOW)
    expected = [datetime(2026, 3, 1, 3, tzinfo=UTC), AT, datetime(2026, 2, 28, 16, tzinfo=UTC)]
    assert given.accepted.column("$time").to_pylist() == expected


def test_local_times_around_the_change_of_clocks() -> None:
    naive = [datetime(2025, 3, 30, 2, 30), datetime(2025, 10, 26, 2, 30)]
    columns = {"symbol": pa.array(["a", "b"]), "price": pa.array([1.0, 2.0]), "at": pa.array(naive)}
    result = admit(arrival(columns, timezone="Europe/Berlin"), QUOTES, Seen(), NOW)
    skipped, twice = result.accepted.column("at").to_pylist()
    assert skipped == datetime(2025, 3, 30, 1, tzinfo=UTC), "the moment after the gap"
    assert twice == datetime(2025, 10, 26, 0, 30, tzinfo=UTC), "the first of the two"


def test_other_layouts_of_the_same_values() -> None:
    columns = {
        "symbol": pa.array(["IBM", "IBM", "SPY"]).dictionary_encode(),
        "price": pa.array([1.5, 2.5, 3.5], pa.float32()),
        "size": pa.array([1, None, 3], pa.int16()),
        "open": pa.array([1, 0, None], pa.int8()),
        "at": pa.array([AT] * 3, pa.timestamp("ns", tz="America/New_York")),
    }
    updates = from_batch(QUOTES, admit(arrival(columns), QUOTES, Seen(), NOW).accepted)
    assert [update.row[:4] for update in updates] == [
        ("IBM", 1.5, 1, True),
        ("IBM", 2.5, None, False),
        ("SPY", 3.5, 3, None),
    ]
    assert {update.event_time for update in updates} == {instant(AT)}


def test_event_time_beside_the_table() -> None:
    table = TableSchema("t", (Column("k", DataType.TEXT, nullable=False), Column("v", DataType.DOUBLE)), key=("k",))
    batch = {"k": pa.array(["a", "b", "c"]), "$time": pa.array([AT, None, datetime(1000, 1, 1, tzinfo=UTC)])}
    result = admit(arrival(batch), table, Seen(), NOW)
    assert result.accepted.column("$time").to_pylist() == [AT]
    assert [row["reason"] for row in result.quarantined.to_pylist()] == ["missing-time", "absurd-time"]
    del batch["$time"]
    assert set(admit(arrival(batch), table, Seen(), NOW).accepted.column("$time").cast(pa.int64()).to_pylist()) == {NOW}


def test_rows_without_numbers_are_known_by_their_content() -> None:
    columns = between_good_ones(price=pa.array([2.5]))
    first = admit(arrival(columns, numbered=False), QUOTES, Seen(), NOW)
    assert (first.accepted.num_rows, first.repeats) == (2, 1), "rows 1 and 3 say the same"
    swapped = dict(reversed(columns.items()))
    again = admit(arrival(swapped, numbered=False), QUOTES, first.seen, NOW)
    assert (again.accepted.num_rows, again.repeats) == (0, 3), "the order of columns does not matter"


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_time_beyond_what_python_can_write(unit: str) -> None:
    far = pa.array([0, 32_503_680_000_000 * 40, 0], pa.int64()).cast(pa.timestamp(unit, tz="UTC"))
    for column in ("at", "symbol"):
        result = admit(arrival({**between_good_ones(), column: far}), QUOTES, Seen(), NOW)
        (refused,) = result.quarantined.to_pylist()
        assert (result.accepted.num_rows, refused["place"]) == (2, "feed.csv, row 2")


def test_offsets_of_two_digits() -> None:
    times = pa.array(["2026-01-01 01:00:00+00", "2026-01-01 01:00:00.5-05", "2026-01-01 01:00+01:00"])
    result = admit(arrival({**between_good_ones(), "at": times}), QUOTES, Seen(), NOW)
    assert [at.hour for at in result.accepted.column("at").to_pylist()] == [1, 6, 0]


LAYOUTS = [
    pa.array(["1", "2", "3"], pa.string_view()),
    pa.array([b"1", b"2", b"3"], pa.binary_view()),
    pa.array(["1", "2", "3"], pa.large_string()),
    pa.array([1, 2, 3], pa.decimal256(10, 2)),
    pa.array(np.array([1, 2, 3], np.float16)),
    pa.array([1, 2, 3], pa.duration("s")),
    pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()),
    pa.array([1, 2, 3], pa.time32("s")),
    pa.array([[1], [2], [3]]),
    pa.array([{"a": 1}] * 3),
    pa.nulls(3),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=[str(layout.type) for layout in LAYOUTS])
@pytest.mark.parametrize("column", list(GOOD))
def test_no_type_of_column_makes_a_row_vanish(layout: pa.Array, column: str) -> None:
    sent = arrival({**between_good_ones(), column: layout}, timezone="UTC")
    first = admit(sent, QUOTES, Seen(), NOW)
    assert first.accepted.num_rows + first.quarantined.num_rows == 3
    again = admit(sent, QUOTES, first.seen, NOW)
    assert (again.accepted.num_rows, again.quarantined.num_rows, again.repeats) == (0, 0, 3)


# --- properties ---------------------------------------------------------------------------------------------------

cell_texts = st.one_of(
    st.sampled_from(["", "1.5", "7", "nan", "-inf", "true", "x", " 2 ", "1e400", "2026-01-02T03:04:05Z", "0", "\x00"]),
    st.text(max_size=5),
)
row_texts = st.fixed_dictionaries({name: st.one_of(st.none(), cell_texts.map(str.encode)) for name in GOOD})


def raw(rows: list[dict[str, bytes | None]], sequences: list[int]) -> Arrival:
    columns = {name: pa.array([row[name] for row in rows], pa.binary()) for name in GOOD}
    return arrival({**columns, "$seq": pa.array(sequences, pa.int64())}, timezone="UTC")


@settings(max_examples=200, deadline=None)
@given(st.lists(row_texts, min_size=1, max_size=12), st.data())
def test_any_cut_and_any_repeat_give_the_same_rows(rows: list[dict[str, bytes | None]], data: st.DataObject) -> None:
    """One at a time, all together, or in a random cut with repeats and out of order: the same outcome a row."""
    alone: dict[int, tuple[bool, str | None]] = {}
    for number, row in enumerate(rows):
        result = admit(raw([row], [number]), QUOTES, Seen(), NOW)
        assert result.accepted.num_rows + result.quarantined.num_rows == 1
        reasons = result.quarantined.column("reason").to_pylist()
        alone[number] = (result.accepted.num_rows == 1, reasons[0] if reasons else None)

    order = data.draw(
        st.lists(st.integers(0, len(rows) - 1), max_size=30).map(lambda extra: [*range(len(rows)), *extra])
    )
    order = data.draw(st.permutations(order))
    cut = data.draw(st.integers(1, len(order)))
    seen, outcome, repeats = Seen(), {}, 0
    for start in range(0, len(order), cut):
        numbers = order[start : start + cut]
        result = admit(raw([rows[number] for number in numbers], numbers), QUOTES, seen, NOW)
        seen, repeats = result.seen, repeats + result.repeats
        assert result.accepted.schema == update_schema(QUOTES)
        result.accepted.validate(full=True)
        for update in from_batch(QUOTES, result.accepted):
            assert update.origin.sequence not in outcome
            outcome[update.origin.sequence] = (True, None)
            for value, column in zip(update.row, QUOTES.columns, strict=True):
                assert column.nullable if value is None else column.type.holds(value), (column, value)
        for refused in result.quarantined.to_pylist():
            assert refused["$seq"] not in outcome
            outcome[refused["$seq"]] = (False, refused["reason"])
    assert outcome == alone
    assert repeats == len(order) - len(rows)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-40, 40), max_size=30), max_size=5))
def test_memory_of_numbers_and_hashes(history: list[list[int]]) -> None:
    seen, known = Seen(), set[int]()
    for batch in history:
        fresh, seen, given_up = seen.admit(np.array(batch, np.int64))
        expected = []
        for number in batch:
            expected.append(number not in known)
            known.add(number)
        assert (fresh.tolist(), given_up) == (expected, 0)


def test_a_thorough_shuffle_of_many_rows_loses_none() -> None:
    order = np.random.default_rng(7).permutation(100_000)
    seen = Seen()
    for batch in np.array_split(order, 10):
        fresh, seen, given_up = seen.admit(batch)
        assert (bool(fresh.all()), given_up) == (True, 0)
    assert seen.ranges() == [(0, 99_999)]


def test_beyond_the_most_holes_the_lowest_are_given_up_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.admission.deduplication.MOST_RANGES", 2)
    _, seen, given_up = Seen().admit(np.array([0, 10, 20, 30], np.int64))
    assert (seen.ranges(), seen.floor, given_up) == ([(20, 20), (30, 30)], 20, 9 + 9)
    numbers = np.array([25, 5, 10, 20], np.int64)
    assert seen.outside(numbers).tolist() == [False, True, True, False]
    fresh, seen, given_up = seen.admit(numbers)
    assert (fresh.tolist(), seen.ranges(), seen.floor) == ([True, False, False, False], [(25, 25), (30, 30)], 25)
    assert given_up == 4


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=8))
def test_no_number_that_never_came_looks_like_a_repeat(history: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slackwater.admission.deduplication.MOST_RANGES", 3)
        seen, taken = Seen(), set[int]()
        for batch in history:
            outside = seen.outside(np.array(batch, np.int64))
            assert all(number < seen.floor for number, out in zip(batch, outside, strict=True) if out)
            fresh, seen, _ = seen.admit(np.array(batch, np.int64))
            for number, new, out in zip(batch, fresh.tolist(), outside.tolist(), strict=True):
                assert not (new and out)
                assert new == (number not in taken) or out
                if new:
                    taken.add(number)


def test_a_row_outside_the_window_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.admission.deduplication.MOST_RANGES", 2)
    table = TableSchema("t", (Column("k", DataType.TEXT, nullable=False),), key=("k",))

    def sent(numbers: list[int], *refused: Refusal) -> Arrival:
        columns = {"k": pa.array([str(number) for number in numbers]), "$seq": pa.array(numbers)}
        return arrival(columns, refused=refused)

    seen = admit(sent([0, 10, 20, 30]), table, Seen(), NOW).seen
    torn = Refusal("{", "not-json", "no end", sequence=3)
    result = admit(sent([5, 30, 40], torn), table, seen, NOW)
    assert (result.accepted.num_rows, result.repeats, result.outside_window) == (1, 1, 1)
    assert [(row["reason"], row["$seq"]) for row in result.quarantined.to_pylist()] == [
        ("outside-window", 5),
        ("not-json", 3),
    ]
    again = admit(sent([5, 40]), table, result.seen, NOW)
    assert (again.repeats, again.outside_window) == (1, 1), "still not known"


def test_rows_without_number_and_time_are_never_repeats() -> None:
    table = TableSchema("t", (Column("k", DataType.TEXT, nullable=False), Column("v", DataType.BIGINT)), key=("k",))
    columns = {"k": pa.array(["a", "a", "a"]), "v": pa.array([1, 2, 1])}
    first = admit(arrival(columns, numbered=False), table, Seen(), NOW)
    numbers = first.accepted.column("$seq").to_pylist()
    assert (first.accepted.num_rows, first.repeats) == (3, 0)
    assert numbers == sorted(set(numbers))
    assert numbers[-1] < -(2**62), "below every content hash"
    assert len(first.seen.recent) == 0
    assert admit(arrival(columns, numbered=False), table, first.seen, NOW).accepted.num_rows == 3


def test_a_deletion_without_a_time_is_never_a_repeat() -> None:
    columns = {"symbol": pa.array(["IBM", "IBM"]), "at": pa.array([" ", None]), "$op": pa.array([1, 1])}
    first = admit(arrival(columns, numbered=False), QUOTES, Seen(), NOW)
    assert (first.accepted.num_rows, first.repeats) == (2, 0)
    assert admit(arrival(columns, numbered=False), QUOTES, first.seen, NOW).repeats == 0


def test_an_event_time_far_ahead_is_refused_by_the_rule_that_is_set() -> None:
    ahead = [NOW + 3_600_000_000, NOW + 3_600_000_001]
    times = pa.array(ahead, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    columns = {"symbol": pa.array(["a", "b"]), "price": pa.array([1.0, 2.0]), "at": times}
    result = admit(arrival(columns, numbered=False), QUOTES, Seen(), NOW, Limits(ahead=3_600_000_000))
    assert result.accepted.column("symbol").to_pylist() == ["a"]
    (refused,) = result.quarantined.to_pylist()
    assert refused["reason"] == "time-ahead"
    assert "at most 1 h ahead of the log clock" in refused["detail"]


@pytest.mark.parametrize("ahead", [0, 48 * 3_600_000_000])
def test_the_rule_for_event_times_judges_no_other_column(ahead: int) -> None:
    """A time in another column may be 24 hours ahead, whatever an event time may be."""
    table = TableSchema(
        "t", (Column("k", DataType.TEXT, nullable=False), Column("due", DataType.TIMESTAMP)), key=("k",)
    )
    day = 24 * 3_600_000_000
    times = pa.array([NOW, NOW + day, NOW + day + 1], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    columns = {"k": pa.array(["now", "in a day", "later"]), "due": times}
    result = admit(arrival(columns), table, Seen(), NOW, Limits(ahead=ahead))
    assert result.accepted.column("k").to_pylist() == ["now", "in a day"]
    (refused,) = result.quarantined.to_pylist()
    assert (refused["reason"], refused["$seq"]) == ("absurd-time", 2)
    assert "due: expected a time from 1900-01-01 to 2026-03-02" in refused["detail"]


def test_old_content_is_forgotten_in_order() -> None:
    seen = Seen()
    for start in range(0, 70_000, 10_000):
        _, seen, _ = seen.admit(-1 - np.arange(start, start + 10_000, dtype=np.int64))
    fresh, _, _ = seen.admit(np.array([-1, -1 - 69_999], np.int64))
    assert fresh.tolist() == [True, False]


def test_instants_are_whole_microseconds() -> None:
    finer = pa.array(["2026-03-01T11:00:00.123456789Z"])
    columns = {"symbol": pa.array(["a"]), "price": pa.array([1.0]), "at": finer}
    (update,) = from_batch(QUOTES, admit(arrival(columns), QUOTES, Seen(), NOW).accepted)
    assert update.event_time == Instant(instant(AT) + 123_456)
