"""Parquet: row groups, torn and damaged files, odd types."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.core import Column, DataType, SourceError, TableSchema
from slackwater.sources import FileSource, infer, read_as
from slackwater.sources.parquet_file import ParquetReader

TABLE = TableSchema("t", (Column("n", DataType.BIGINT, nullable=False),), key=("n",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.parquet"
    table = pa.table({"n": pa.array(range(3_000)), "x": pa.array([f"text {n}" for n in range(3_000)])})
    pq.write_table(table, path, row_group_size=1_000, compression="snappy")
    return path


def test_rows_are_numbered_over_row_groups_whatever_the_batches(path: Path) -> None:
    for batch_rows in (7, 999, 5_000):
        batches = list(ParquetReader(path, batch_rows=batch_rows).rows())
        assert [n for rows in batches for n in rows.numbers.tolist()] == list(range(1, 3_001))
        assert max(rows.batch.num_rows for rows in batches) <= batch_rows
        assert [n for rows in batches for n in rows.batch.column("n").to_pylist()] == list(range(3_000))


@pytest.mark.parametrize("keep", [1, 4, 11, 2_000, -1, -8])
def test_a_torn_file_is_one_refusal(path: Path, keep: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    [arrival] = FileSource(read_as(path, TABLE)).arrivals()
    [refusal] = arrival.refused
    assert (refusal.reason, arrival.batch.num_rows, refusal.sequence) == ("truncated-file", 0, None)
    with pytest.raises(SourceError, match="cut off"):
        infer(path)


def test_a_damaged_row_group_leaves_the_others(path: Path) -> None:
    place = pq.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
    data = bytearray(path.read_bytes())
    data[place : place + 40] = b"\xff" * 40
    path.write_bytes(data)
    batches = list(ParquetReader(path, batch_rows=400).rows())
    numbers = [n for rows in batches for n in rows.numbers.tolist()]
    assert numbers == [*range(1, 1_001), *range(2_001, 3_001)]
    assert [(r.reason, r.sequence) for rows in batches for r in rows.refused] == [("damaged-rows", 1_001)]


def test_a_damaged_directory_is_a_torn_file(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-60:-8] = b"\xff" * 52
    path.write_bytes(data)
    [rows] = ParquetReader(path).rows()
    assert [r.reason for r in rows.refused] == ["truncated-file"]


def test_what_is_no_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"hello, this is not it")
    with pytest.raises(SourceError, match="not a Parquet file"):
        infer(path)
    with pytest.raises(SourceError, match="not a Parquet file"):
        list(FileSource(read_as(path, TABLE)).arrivals())


def test_types_are_inferred_into_the_five(tmp_path: Path) -> None:
    path = tmp_path / "odd.parquet"
    moment = datetime(2024, 1, 2, 3, 4, 5)
    table = pa.table(
        {
            "id": pa.array(["a", "b"]).dictionary_encode(),
            "i16": pa.array([1, 2], pa.int16()),
            "u64": pa.array([1, 2], pa.uint64()),
            "f32": pa.array([1.5, None], pa.float32()),
            "money": pa.array([Decimal("1.10"), None]),
            "flag": pa.array([True, None]),
            "day": pa.array([date(2024, 1, 2)] * 2),
            "at": pa.array([moment] * 2, pa.timestamp("ms", "UTC")),
            "list": pa.array([[1, None], None]),
            "struct": pa.array([{"x": moment}, None]),
            "lasted": pa.array([timedelta(seconds=1), None]),
            "bytes": pa.array([b"\xff", None]),
            "nothing": pa.nulls(2),
        }
    )
    pq.write_table(table, path)
    reading = infer(path)
    kinds = {column.name: column.type for column in reading.schema.columns}
    text, whole, number, time = DataType.TEXT, DataType.BIGINT, DataType.DOUBLE, DataType.TIMESTAMP
    assert kinds == {
        "id": text,
        "i16": whole,
        "u64": whole,
        "f32": number,
        "money": number,
        "flag": DataType.BOOLEAN,
        "day": time,
        "at": time,
        "list": text,
        "struct": text,
        "lasted": text,
        "bytes": text,
        "nothing": text,
    }
    assert (reading.time, reading.key, reading.naive) == ("at", ("id",), True)  # the day has no zone
    [arrival] = FileSource(reading).arrivals()
    row = arrival.batch.to_pylist()[0]
    assert (row["list"], row["struct"]) == ("[1,null]", '{"x":"2024-01-02T03:04:05"}')
    assert (row["lasted"], row["bytes"], row["id"]) == ("0:00:01", b"\xff", "a")


def test_an_empty_table_has_a_schema_and_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    pq.write_table(pa.table({"id": pa.array([], pa.string())}), path)
    assert list(FileSource(infer(path)).arrivals()) == []
