"""The log as a source of Spark: exactly the positions, in batches as asked for."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from slackwater.core import LogError, Position, PositionGone, SchemaError
from slackwater.core.lineage import Place
from slackwater.log import LocalLog, Updates, decode
from slackwater.pipeline import source
from slackwater.pipeline.source import FORMAT, LogOptions, LogPart, LogStreamReader, register, stored_records

if TYPE_CHECKING:
    from tests.pipeline.conftest import World


def reader(log: Path, **options: str) -> LogStreamReader:
    return LogStreamReader(LogOptions.of({"path": str(log), **options}))


def test_a_stream_is_cut_by_rows_and_ends_where_the_log_did(
    world: "World", spark: SparkSession, tmp_path: Path
) -> None:
    history = world.history(1)
    log = history.write(tmp_path / "log")
    register(spark)
    seen: list[list[tuple[int, int]]] = []

    def take(batch: DataFrame, number: int) -> None:
        if number == 0:
            # Comes after the stream has begun: not for this run.
            with LocalLog(log) as writing:
                writing.append([record for record in history.records if isinstance(record, Updates)][:1])
        seen.append(
            sorted((row.position, row.position + row.rows) for row in batch.select("position", "rows").collect())
        )

    with LocalLog(log, read_only=True) as opened:
        end = opened.end
    stream = spark.readStream.format(FORMAT).options(path=str(log), max_rows="100").load()
    query = stream.writeStream.foreachBatch(take).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    spans = [span for batch in seen for span in batch]
    assert [first for first, _ in spans] == [0, *(after for _, after in spans[:-1])], "no hole, nothing twice"
    assert spans[-1][1] == end
    assert [batch[-1][1] - batch[0][0] for batch in seen[:-1]] == [100] * (len(seen) - 1)
    assert len(seen) == -(-end // 100)


def test_a_table_can_be_read_with_its_own_columns(world: "World", spark: SparkSession, tmp_path: Path) -> None:
    history = world.history(2)
    log = history.write(tmp_path / "log")
    register(spark)
    frame = spark.read.format(FORMAT).option("table", "quotes").load(str(log))
    assert frame.columns == ["symbol", "price", "$op", "$time", "$source", "$seq", "$position"]
    expected = [(update.row[0], update.row[1]) for update in history.updates(world.quotes)]
    assert [(row.symbol, row.price) for row in frame.orderBy("$position").collect()] == expected


def test_reading_a_range_gives_its_rows_and_no_other(
    world: "World", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "PIECE_ROWS", 7)
    monkeypatch.setattr(source, "BATCH_BYTES", 5_000)
    log = world.history(3).write(tmp_path / "log")
    with LocalLog(log, read_only=True) as opened:
        for first, end in [(0, int(opened.end)), (5, 60), (33, 34), (opened.end, opened.end)]:
            part = LogPart(first, end, opened.lineage.place(Position(end)))
            batches = list(reader(log).read(InputPartition(part)))
            records = [(stored, decode(stored)) for batch in batches for stored in stored_records(batch)]
            assert sum(stored.rows for stored, _ in records) == end - first
            expected = [
                entry.record.batch
                for entry in opened.read(Position(first), Position(end))
                if isinstance(entry.record, Updates)
            ]
            found = [record.batch for _, record in records if isinstance(record, Updates)]
            assert [row for batch in found for row in batch.to_pylist()] == [
                row for batch in expected for row in batch.to_pylist()
            ]


def test_limits_are_kept_and_offsets_never_go_back(world: "World", tmp_path: Path) -> None:
    history = world.history(4)
    log = history.write(tmp_path / "log")
    with LocalLog(log) as writing:
        end = writing.end
        one = reader(log, max_rows="30")
        assert one.getDefaultReadLimit() == ReadMaxRows(30)
        # The history's own writer, not the one that has it open now.
        written = writing.lineage.place(end).incarnation

        def at(position: int) -> dict[str, int]:
            return {"position": position, "incarnation": written}

        assert one.initialOffset() == at(0)
        assert one.latestOffset(at(10), ReadMaxRows(30)) == at(40)
        assert one.latestOffset(at(10), ReadAllAvailable()) == at(end)
        assert one.latestOffset(at(end), ReadMaxRows(30)) == at(end)
        one.prepareForTriggerAvailableNow()
        writing.append([record for record in history.records if isinstance(record, Updates)][:1])
        assert one.latestOffset(at(10), ReadAllAvailable()) == at(end)
        assert one.reportLatestOffset()["position"] > end


def test_a_range_is_always_cut_the_same_way(monkeypatch: pytest.MonkeyPatch, world: "World", tmp_path: Path) -> None:
    monkeypatch.setattr(source, "PARTITION_ROWS", 10)
    one = reader(world.history(5).write(tmp_path / "log"))
    parts = [part.value for part in one.partitions({"position": 3}, {"position": 26, "incarnation": 7})]
    end = Place(7, Position(26))
    assert parts == [LogPart(3, 10, end), LogPart(10, 18, end), LogPart(18, 26, end)]
    assert one.partitions({"position": 3}, {"position": 3}) == []


def test_what_cannot_be_read_is_said(world: "World", tmp_path: Path) -> None:
    log = world.history(6).write(tmp_path / "log")
    for options, message in [({"max_rows": "0"}, "max_rows must be"), ({"start": "x"}, "start must be")]:
        with pytest.raises(LogError, match=message):
            reader(log, **options)
    with pytest.raises(LogError, match="needs its folder"):
        LogOptions.of({})
    with pytest.raises(SchemaError, match="there is no table 'x' in the log"):
        list(reader(log, table="x").read(InputPartition(LogPart(0, 3, Place(0, Position(3))))))
    with LocalLog(log) as writing:
        writing.drop_before(writing.end)
        assert writing.start > 0
    with pytest.raises(PositionGone, match="was dropped"):
        reader(log, start="0").initialOffset()
