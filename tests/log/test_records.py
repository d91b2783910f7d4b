import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import (
    Column,
    DataType,
    Instant,
    LogCorrupt,
    LogError,
    Operation,
    Origin,
    Position,
    TableSchema,
    Update,
)
from slackwater.core.arrival import RequestKey
from slackwater.core.arrow import QUARANTINE, from_batch, to_batch
from slackwater.log import Quarantined, Record, RecordKind, TableDefined, TableDropped, Updates
from slackwater.log.records import StoredRecord, decode, decode_tables, encode, encode_tables

ALL_TYPES = TableSchema(
    "everything",
    (
        Column("id", DataType.BIGINT, nullable=False),
        Column("flag", DataType.BOOLEAN),
        Column("price", DataType.DOUBLE),
        Column("note", DataType.TEXT),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("id",),
    event_time="at",
)
BIGINT = st.integers(-(2**63), 2**63 - 1)
rows = st.tuples(
    BIGINT,
    st.none() | st.booleans(),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
    st.none() | BIGINT,
)
some_updates = st.builds(
    Update,
    table=st.just("everything"),
    row=rows,
    event_time=BIGINT.map(Instant),
    origin=st.builds(Origin, st.text(st.characters(codec="utf-8"), max_size=8), BIGINT),
    operation=st.sampled_from(Operation),
)


def through_bytes(record: Record) -> Record:
    encoded = encode(record)
    body = b"".join(encoded.body)
    return decode(StoredRecord(Position(0), encoded.rows, encoded.kind, encoded.subject, body))


@given(st.lists(some_updates, min_size=1, max_size=20), st.data())
@settings(max_examples=100, deadline=None)
def test_updates_come_back_also_from_a_slice(updates: list[Update], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(updates) - 1))
    batch = to_batch(ALL_TYPES, updates).slice(start)
    back = through_bytes(Updates("everything", batch))
    assert isinstance(back, Updates)
    assert from_batch(ALL_TYPES, back.batch) == updates[start:]
    encoded = encode(Updates("everything", batch))
    times = [update.event_time for update in updates[start:]]
    assert (encoded.earliest, encoded.latest, encoded.rows) == (min(times), max(times), len(times))


def test_the_body_of_a_batch_is_an_arrow_stream() -> None:
    batch = to_batch(ALL_TYPES, [Update("everything", (1, True, 2.5, "x", 3), Instant(3), Origin("s", 1))])
    body = b"".join(encode(Updates("everything", batch)).body)
    with pa.ipc.open_stream(body) as reader:
        assert reader.read_all().to_batches()[0].equals(batch)


def test_the_moment_of_admission_and_the_key_stand_behind_the_stream() -> None:
    batch = to_batch(ALL_TYPES, [Update("everything", (1, True, 2.5, "x", 3), Instant(3), Origin("s", 1))])
    for request in (None, RequestKey("order 7", bytes(range(16)))):
        body = b"".join(encode(Updates("everything", batch, Instant(2**60), request)).body)
        with pa.ipc.open_stream(body) as reader:
            assert reader.read_next_batch().equals(batch), "as a former version reads it"
        back = through_bytes(Updates("everything", batch, Instant(2**60), request))
        assert isinstance(back, Updates)
        assert (back.admitted, back.request) == (2**60, request)
    former = through_bytes(Updates("everything", batch))
    assert isinstance(former, Updates)
    assert (former.admitted, former.request) == (None, None)


def test_two_layouts_of_one_table_are_told_apart() -> None:
    wider = ALL_TYPES.with_column(Column("more", DataType.DOUBLE))
    one = to_batch(ALL_TYPES, [Update("everything", (1, None, None, None, None), Instant(0), Origin("s", 1))])
    two = to_batch(wider, [Update("everything", (1, None, None, None, None, 2.0), Instant(0), Origin("s", 2))])
    for batch in (one, two, one, two):
        back = through_bytes(Updates("everything", batch))
        assert isinstance(back, Updates)
        assert back.batch.equals(batch)


def test_definitions_come_back() -> None:
    assert through_bytes(TableDefined(ALL_TYPES)) == TableDefined(ALL_TYPES)
    assert through_bytes(TableDropped("everything")) == TableDropped("everything")
    assert decode_tables(encode_tables([ALL_TYPES, ALL_TYPES])) == (ALL_TYPES, ALL_TYPES)
    assert decode_tables(encode_tables([])) == ()


def test_batches_of_another_layout_are_refused() -> None:
    bare = pa.record_batch({"id": [1]})
    with pytest.raises(LogError, match="ends with"):
        encode(Updates("everything", bare))
    with pytest.raises(LogError, match="quarantine batch has the columns"):
        encode(Quarantined("everything", bare))
    good = to_batch(ALL_TYPES, [Update("everything", (1, None, None, None, None), Instant(0), Origin("s", 1))])
    odd = good.set_column(3, "note", pa.array(["x"]).dictionary_encode())
    with pytest.raises(LogError, match="other types: note"):
        encode(Updates("everything", odd))


@pytest.mark.parametrize("name", ["", "x" * 1025, "\ud800"])
def test_names_that_cannot_be_stored_are_refused(name: str) -> None:
    with pytest.raises(LogError, match="table name"):
        encode(TableDropped(name))


@pytest.mark.parametrize(
    "stored",
    [
        StoredRecord(Position(7), 1, RecordKind.UPDATES, "t", b""),
        StoredRecord(Position(7), 1, RecordKind.UPDATES, "t", b"\xff\xff\xff\xff\x10\x00\x00\x00garbage garbage!"),
        StoredRecord(Position(7), 1, RecordKind.TABLE, "t", b"{}"),
        StoredRecord(Position(7), 1, RecordKind.TABLE, "t", b'{"name":"t","columns":[],"key":[],"event_time":null}'),
    ],
)
def test_unreadable_bytes_are_corrupt(stored: StoredRecord) -> None:
    with pytest.raises(LogCorrupt, match="position 7"):
        decode(stored)


def test_a_wrong_number_of_rows_is_corrupt() -> None:
    row = {"row": "", "reason": "", "detail": "", "place": "", "at": 0, "$source": "", "$seq": 1}
    encoded = encode(Quarantined("t", pa.RecordBatch.from_pylist([row], schema=QUARANTINE)))
    with pytest.raises(LogCorrupt, match="1 rows where 2"):
        decode(StoredRecord(Position(0), 2, encoded.kind, "t", b"".join(encoded.body)))
