"""Rows decoded by a schema are the rows that the exact reader finds, or are left to it."""

import json
from collections.abc import Sequence
from random import Random

import pyarrow as pa

from slackwater.admission import Limits, Seen, admit
from slackwater.admission.admit import admit_generally
from slackwater.core import Column, DataType, Instant, TableSchema
from slackwater.core.arrival import Arrival
from slackwater.sources.json_lines import JsonLinesReader
from slackwater.sources.typed_json import TypedJsonReader

NOW = Instant(1_800_000_000_000_000)
TABLE = TableSchema(
    "items",
    (
        Column("id", DataType.BIGINT, nullable=False),
        Column("näme", DataType.TEXT),
        Column("value", DataType.DOUBLE),
        Column("open", DataType.BOOLEAN),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("id",),
)
GOOD: dict[str, Sequence[object]] = {
    "id": [1, 2, -(2**63), 2**63 - 1],
    "näme": ["a", 'quoted ": "', "é\n", None, "12:30"],
    "value": [1.5, 3, 2**53 + 1, -0.0, 1e300, 2**70, None],
    "open": [True, False, None],
    "at": ["2026-03-01T12:00:00Z", None],
}
ODD: list[object] = [None, 1.0, 2**63, "3", True, 7, [], {}, float("inf"), "soon", ""]
LINES = [
    b"",
    b"  ",
    b"[1]",
    b'{"id": 1',
    b'{"id": 1} {"id": 2}',
    b"{}",
    b'{"id": 1, "id": 2}',
    b'{"id": 1, "other": 2}',
]
LINES += [
    b'{"id":\r1}',
    b' {"id": 4}',
    b'{"id": 4}\r',
    b'{"id": 01}',
    b'{"$seq": 4, "id": 1}',
    b'{"id": 3, "n\\u00e4me": "x"}',
]
LINES += [b'{"id": 3, "n\xe4me": 1}', b'{"id": 3, "value": 1e999}', b'{"id": 3, "\\u0069d": 4}', b'{"id" : 5, "id": 6}']
LINES += [
    b'{"id": 1, "value": 99999999999999999999999, "at": "2026-03-01 12:00:00"}',
    b'{"id":\n7}\n{"id": 8}{"id": 9}',
]


def body_of(random: Random) -> bytes:
    odd = random.random() < 0.4
    lines = []
    for _ in range(random.choice([1, 1, 2, 3, 8])):
        cells = {name: random.choice(some) for name, some in GOOD.items() if name == "id" or random.random() < 0.9}
        if odd and random.random() < 0.2:
            cells[random.choice([*GOOD])] = random.choice(ODD)
        text = json.dumps(
            cells, ensure_ascii=random.random() < 0.5, separators=random.choice([(",", ":"), (", ", ": ")])
        )
        lines.append(random.choice(LINES) if odd and random.random() < 0.3 else text.encode())
    return b"\n".join(lines) + random.choice([b"\n", b"\n", b"", b"\n\n" if odd else b"\n"])


def exactly(body: bytes) -> list[Arrival]:
    return [
        Arrival("items", "s", rows.batch, "test", rows=pa.array(rows.numbers, pa.int64()), refused=rows.refused)
        for rows in JsonLinesReader([body], "test").rows()
    ]


def test_what_is_read_by_the_schema_is_admitted_as_what_is_read_exactly() -> None:
    reader = TypedJsonReader(TABLE)
    read = left = refused = 0
    for seed in range(1500):
        body = body_of(Random(seed))
        batches = reader.read(body)
        if batches is None:
            left += 1
            continue
        read += 1
        [batch], [exact] = batches, exactly(body)
        assert exact.refused == (), body
        assert batch.num_rows == exact.batch.num_rows
        expected = admit_generally(exact, TABLE, Seen(), NOW, Limits())
        found = admit(Arrival("items", "s", batch, "test", original=lambda: exact), TABLE, Seen(), NOW)  # noqa: B023
        assert found.accepted.equals(expected.accepted), body
        assert found.quarantined.equals(expected.quarantined), body
        refused += found.quarantined.num_rows
    assert read > 600
    assert left > 250
    assert refused > 5


def test_a_table_whose_names_json_escapes_is_left_to_the_exact_reader() -> None:
    for name in ('a"b', "a\\b"):
        table = TableSchema("t", (Column("id", DataType.BIGINT, nullable=False), Column(name, DataType.TEXT)), ("id",))
        assert TypedJsonReader(table).read(json.dumps({"id": 1, name: "x"}).encode()) is None


def test_only_lines_that_are_as_they_should_be_are_read() -> None:
    reader = TypedJsonReader(TABLE)
    for line in LINES:
        fits = line in (b'{"id": 3, "n\\u00e4me": "x"}', b'{"id":\r1}', LINES[-2])
        assert (reader.read(b'{"id": 1}\n' + line + b'\n{"id": 2}\n') is not None) == fits, line
    long = b'{"id": 1, "n\xc3\xa4me": "' + b"x" * (1 << 20) + b'"}\n'
    assert reader.read(long) is None
    assert reader.read(b'{"id": 1}\n' + long) is None


def test_many_rows_come_in_the_batches_of_the_exact_reader() -> None:
    body = b"".join(b'{"id": %d}\n' % number for number in range(25_000))
    batches = TypedJsonReader(TABLE).read(body)
    assert batches is not None
    assert [one.num_rows for one in batches] == [one.batch.num_rows for one in exactly(body)]
