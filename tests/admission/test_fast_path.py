"""The fast path accepts nothing that the general one would not, and what it accepts is equal to it."""

import math
from collections.abc import Callable
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from slackwater.admission import Limits, Seen, admit_run, deduplication
from slackwater.admission.admit import admit_generally
from slackwater.core import Column, DataType, Instant, TableSchema
from slackwater.core.arrival import Arrival, Refusal
from slackwater.core.arrow import INSTANT
from slackwater.log import Updates
from slackwater.log.records import encode

NOW = Instant(1_800_000_000_000_000)
COLUMNS = (
    Column("id", DataType.BIGINT, nullable=False),
    Column("name", DataType.TEXT, nullable=False),
    Column("value", DataType.DOUBLE),
    Column("open", DataType.BOOLEAN),
    Column("at", DataType.TIMESTAMP),
)
UNDATED = TableSchema("undated", COLUMNS, key=("id", "name"))
DATED = TableSchema("dated", COLUMNS, key=("id",), event_time="at")
LIMITS = Limits(longest_text=12)
TEXTS = ["", "a", "blå", "x" * 12, "x" * 13, "é" * 7]
TIMES = [NOW, NOW - 5, NOW + LIMITS.ahead, NOW + LIMITS.ahead + 1, LIMITS.earliest, LIMITS.earliest - 1]
WRITTEN = ["2026-03-01T12:00:00Z", "2026-03-01 12:00:00.123456+01:00", " 2026-03-01T12:00:00Z", "soon", "2026-03-01"]

Cells = Callable[[Random, int], pa.Array]


def _some(random: Random, rows: int, good: list[object], others: list[object]) -> list[object]:
    """Cells of which most are good: otherwise no arrival would be."""
    odd = 0.3 if random.random() < 0.06 else 0.0
    return [random.choice(others if random.random() < odd else good) for _ in range(rows)]


def _times(random: Random, rows: int) -> pa.Array:
    shape = random.randrange(12)
    if shape == 0:
        return pa.array(_some(random, rows, [*WRITTEN[:2]], [*WRITTEN, None, ""]), pa.string())
    if shape == 1:
        return pa.array(_some(random, rows, [1_700_000_000_000], [None]), pa.timestamp("ms", tz="Europe/Vienna"))
    if shape == 2:
        return pa.array(_some(random, rows, [1_700_000_000_000_000], [None]), pa.timestamp("us"))
    return pa.array(_some(random, rows, [*TIMES[:3]], [*TIMES, None]), pa.int64()).cast(INSTANT)


def _numbers(random: Random, rows: int) -> pa.Array:
    kind = random.choice([pa.int64(), pa.int64(), pa.int64(), pa.int32(), pa.string(), pa.null()])
    if kind == pa.null():
        return pa.nulls(rows)
    cells = _some(random, rows, [1, 2, 3], [None, -4])
    return pa.array([None if cell is None else str(cell) for cell in cells] if kind == pa.string() else cells, kind)


def _doubles(random: Random, rows: int) -> pa.Array:
    kind = random.choices([pa.float64(), pa.int64(), pa.float32()], [8, 3, 1])[0]
    odd: list[object] = [None] if kind == pa.int64() else [None, math.nan, math.inf, -0.0]
    return pa.array(_some(random, rows, [2**53 + 1, 7] if kind == pa.int64() else [1.5, 1e300, -2.0], odd), kind)


def _texts(random: Random, rows: int) -> pa.Array:
    kind = random.choices([pa.string(), pa.large_string(), pa.binary()], [12, 1, 1])[0]
    array = pa.array(_some(random, rows, list(TEXTS[:4]), [*TEXTS, None]), kind)
    if random.random() < 0.02:
        return pa.array([b"\xff"] * rows, pa.binary()).view(pa.string())
    return array.dictionary_encode() if random.random() < 0.03 else array


def _flags(random: Random, rows: int) -> pa.Array:
    return pa.array(_some(random, rows, [True, False, None], [True]), pa.bool_())


CELLS: dict[str, Cells] = {
    "id": lambda random, rows: pa.array(_some(random, rows, [1, 2, 3], [None]), pa.int64()),
    "name": _texts,
    "value": _doubles,
    "open": _flags,
    "at": _times,
    "other": _numbers,
    "$time": _times,
    "$op": lambda random, rows: pa.array([random.choice([0, 1]) for _ in range(rows)], pa.int8()),
}
USUAL = {"id": 0.98, "name": 0.98, "value": 0.9, "open": 0.7, "at": 0.9, "other": 0.1, "$time": 0.15, "$op": 0.05}


def make_arrival(random: Random, names: list[str], rows: int, source: str, table: TableSchema) -> Arrival:
    columns = {name: CELLS[name](random, rows + 2) for name in names}
    if random.random() < 0.8:
        first = random.randrange(40)
        numbers: list[int | None] = [first + nth for nth in range(rows + 2)]
        if random.random() < 0.2:
            numbers[random.randrange(len(numbers))] = random.choice([None, -1, 2**62 + 1, first, 3])
        columns["$seq"] = pa.array(numbers, pa.int64())
    batch = pa.RecordBatch.from_pydict(columns).slice(random.choice([0, 2]), rows)
    refused = (Refusal("x", "not-json", "torn", None),) if random.random() < 0.03 else ()
    timezone = "Europe/Vienna" if random.random() < 0.2 else None
    return Arrival(table.name, source, batch, "test", timezone=timezone, refused=refused)


def run_of(random: Random, table: TableSchema) -> list[Arrival]:
    """Arrivals of one layout, mostly: the same random numbers make the same kinds of columns."""
    names = [name for name, share in USUAL.items() if random.random() < share]
    made = []
    kinds = random.getrandbits(32)
    for _ in range(random.choice([1, 1, 2, 3, 5])):
        if random.random() < 0.03:
            kinds = random.getrandbits(32)
        made.append(
            make_arrival(
                Random(kinds),
                names,
                random.choice((1, 1, 2, 4, 0) if random.random() < 0.1 else (1, 1, 3)),
                random.choice("abc"),
                table,
            )
        )
    # Each source numbers its rows on, mostly.
    return made if random.random() < 0.3 else [_numbered(one, 100 * nth) for nth, one in enumerate(made)]


def _numbered(arrival: Arrival, first: int) -> Arrival:
    batch = arrival.batch
    if "$seq" not in batch.schema.names:
        return arrival
    numbers = pa.array(range(first, first + batch.num_rows), pa.int64())
    at = batch.schema.get_field_index("$seq")
    return Arrival(
        arrival.table, arrival.source, batch.set_column(at, "$seq", numbers), "test", timezone=arrival.timezone
    )


def assert_equal_seen(one: Seen, other: Seen) -> None:
    assert one.ranges() == other.ranges()
    assert one.recent.tolist() == other.recent.tolist()
    assert one.floor == other.floor


def test_a_run_is_what_its_arrivals_are_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deduplication, "MOST_RANGES", 3)
    taken = together = 0
    for seed in range(1200):
        random = Random(seed)
        table = random.choice([UNDATED, DATED])
        arrivals = run_of(random, table)
        stamps = [Instant(NOW + nth) for nth in range(len(arrivals))]
        memory: dict[str, Seen] = {}
        for source in "ab":
            begin = np.array(random.choice([[], [5, 6], [1000], [1, 3, 5, 7]]), np.int64)
            _, memory[source], _ = Seen().admit(begin)
        found = admit_run(arrivals, stamps, table, memory, LIMITS)
        general = dict(memory)
        outcomes = []
        for arrival, stamp in zip(arrivals, stamps, strict=True):
            before = general.get(arrival.source, Seen())
            outcomes.append(admit_generally(arrival, table, before, stamp, LIMITS))
            general[arrival.source] = outcomes[-1].seen
        if found is None:
            continue
        taken += 1
        together += len(arrivals) > 1
        assert all(not one.quarantined.num_rows and not one.repeats and not one.given_up for one in outcomes)
        assert found.counts == tuple(one.accepted.num_rows for one in outcomes)
        expected = pa.concat_batches([one.accepted for one in outcomes])
        assert found.accepted.schema.equals(expected.schema, check_metadata=True)
        assert found.accepted.equals(expected), seed
        found.accepted.validate(full=True)
        assert found.sequences.tolist() == expected.column("$seq").to_pylist()
        assert {one.ignored_columns for one in outcomes} == {found.ignored_columns}
        for source, seen in found.seen.items():
            assert_equal_seen(seen, general[source])
        assert found.seen.keys() == {arrival.source for arrival in arrivals}
    # A fast path that takes nothing would be equal too.
    assert taken > 240
    assert together > 60


def test_a_buffer_may_be_longer_than_its_numbers() -> None:
    def odd(kind: pa.DataType, made: bytes) -> pa.Array:
        return pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(made + b"odd")]).slice(1)

    columns = {
        "id": pa.array([1, 2], pa.int64()),
        "name": pa.array(["a", "b"]),
        "value": odd(pa.float64(), np.array([math.nan, 1.5, 2.5]).tobytes()),
        "at": odd(INSTANT, np.array([0, NOW, NOW + 1], np.int64).tobytes()),
        "$seq": pa.array([1, 2], pa.int64()),
    }
    arrival = Arrival("dated", "s", pa.RecordBatch.from_pydict(columns), "test")
    found = admit_run([arrival], [NOW], DATED, {}, LIMITS)
    assert found is not None
    assert found.accepted.equals(admit_generally(arrival, DATED, Seen(), NOW, LIMITS).accepted)
    encoded = encode(Updates("dated", found.accepted, NOW))
    assert (encoded.earliest, encoded.latest) == (NOW, NOW + 1)


def test_plain_rows_take_the_fast_path_and_one_fault_leaves_it() -> None:
    good = {
        "id": pa.array([1, 2], pa.int64()),
        "name": pa.array(["a", "b"]),
        "value": pa.array([1.5, None]),
        "at": pa.array([NOW, NOW], pa.int64()).cast(INSTANT),
        "$seq": pa.array([1, 2], pa.int64()),
    }
    bad: dict[str, pa.Array] = {
        "id": pa.array([1, None], pa.int64()),
        "name": pa.array(["a", "x" * 13]),
        "value": pa.array([1.5, math.inf]),
        "at": pa.array([NOW, NOW + LIMITS.ahead + 2], pa.int64()).cast(INSTANT),
        "$seq": pa.array([1, 1], pa.int64()),
        "$op": pa.array([0, 1], pa.int8()),
    }

    def is_taken(columns: dict[str, pa.Array]) -> bool:
        arrival = Arrival("dated", "s", pa.RecordBatch.from_pydict(columns), "test")
        return admit_run([arrival], [NOW], DATED, {}, LIMITS) is not None

    assert is_taken(good)
    assert not any(is_taken({**good, name: cells}) for name, cells in bad.items())
