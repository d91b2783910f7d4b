"""Bulk load: the same sets as through the log, and the same again however often it is done."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slackwater.admission import Limits
from slackwater.core import Column, DataType, Instant, ManualClock, SourceError, TableSchema
from slackwater.intake import Intake
from slackwater.log import LocalLog
from slackwater.pipeline.jobs import file_parts as parts
from slackwater.pipeline.jobs import load as loading
from slackwater.pipeline.jobs.file_parts import FilePart, parts_of
from slackwater.pipeline.jobs.load import LoadReceipt, load
from slackwater.pipeline.tables.snapshot import TableSnapshot, snapshot
from slackwater.pipeline.tables.stream import run_pipeline
from slackwater.pipeline.tables.tasks import InProcess
from slackwater.sources import FileSource, Reading, infer, read_as

if TYPE_CHECKING:
    from tests.pipeline.conftest import World

NOW = Instant(1_800_000_000_000_000)
SENSORS = TableSchema(
    "sensors",
    (
        Column("sensor", DataType.TEXT, nullable=False),
        Column("celsius", DataType.DOUBLE),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("sensor",),
    event_time="at",
)


def csv(path: Path, first: int, end: int) -> Path:
    """Rows over several days, every seventh of them bad, out of order."""
    lines = ["sensor,celsius,at"]
    for n in range(first, end):
        celsius = "hot" if n % 7 == 0 else f"{n / 10}"
        lines.append(f"s{n * 5 % 11},{celsius},2026-03-{1 + n * 3 % 5:02d}T00:00:{n % 60:02d}Z")
    text = "\n".join(lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def parquet(path: Path, first: int, end: int) -> Path:
    rows = pa.table(
        {
            "sensor": [f"s{n * 5 % 11}" for n in range(first, end)],
            "celsius": [float("nan") if n % 7 == 0 else n / 10 for n in range(first, end)],
            "at": pa.array([n * 3 % 5 * 86_400_000_000 + n for n in range(first, end)], pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(rows, path, row_group_size=30)
    return path


def files(folder: Path) -> list[Reading]:
    folder.mkdir()
    jsonl = folder / "c.jsonl"
    jsonl.write_text('{"sensor": "s1", "celsius": 5, "at": "2026-03-09T00:00:00Z"}\n{"sensor": nul\n')
    paths = [
        csv(folder / "a.csv", 0, 120),
        csv(folder / "b.csv.gz", 100, 180),
        parquet(folder / "d.parquet", 0, 200),
        jsonl,
    ]
    return [read_as(path, SENSORS) for path in paths]


def kept(now: TableSnapshot) -> tuple[list[object], list[object], list[object]]:
    """Latest, history and quarantine as sorted lists; without positions, which a load has not.

    When a row was refused is the same but for the microseconds by which a log dates one arrival after the other.
    """
    refused = now.quarantine().to_table().drop_columns(["at"])
    tables = (now.latest("sensors"), now.history("sensors").to_table(), refused)
    latest, history, quarantine = (sorted(map(repr, table.drop_columns(["$position"]).to_pylist())) for table in tables)
    return list(latest), list(history), list(quarantine)


def through_the_log(readings: list[Reading], folder: Path, spark: SparkSession) -> TableSnapshot:
    with LocalLog(folder / "log") as log, Intake(log, ManualClock(NOW)) as intake:
        intake.define(SENSORS)
        for reading in readings:
            for arrival in FileSource(reading).arrivals():
                intake.take([arrival])
    with run_pipeline(folder / "log", folder / "streamed", spark, available_now=True) as run:
        run.wait()
    return snapshot(folder / "streamed")


def test_loaded_and_streamed_are_the_same_sets_and_again_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 60)
    monkeypatch.setattr(loading, "WAVE_PARTS", 3)
    readings, out = files(tmp_path / "in"), tmp_path / "out"
    told: list[LoadReceipt] = []
    receipt = load(readings, out, spark, NOW, progress=told.append)
    assert len(told) == 2, "in waves"
    assert (receipt.files, receipt.unchanged, receipt.rows, receipt.repeats) == (4, 0, 120 + 80 + 200 + 2, 0)
    assert receipt.quarantined > 50
    streamed = through_the_log(readings, tmp_path, spark)
    assert kept(snapshot(out)) == kept(streamed)
    assert all(0 <= at - NOW <= 1_000 for at in streamed.quarantine().to_table().column("at").cast("int64").to_pylist())
    assert set(snapshot(out).quarantine().to_table().column("at").cast("int64").to_pylist()) == {NOW}
    load(readings, tmp_path / "plain", InProcess(), NOW)
    assert kept(snapshot(out)) == kept(snapshot(tmp_path / "plain"))
    files_before = sorted(snapshot(out).state.paths())
    again = load(readings, out, spark, Instant(NOW + 5))
    assert (again.files, again.unchanged, again.rows) == (4, 4, 0)
    assert sorted(snapshot(out).state.paths()) == files_before


def test_of_a_file_that_grew_only_the_new_rows_count_and_the_log_goes_on(
    world: "World", spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = load([read_as(csv(tmp_path / "a.csv", 0, 100), SENSORS)], out, InProcess(), NOW)
    more = load([read_as(csv(tmp_path / "a.csv", 0, 150), SENSORS)], out, InProcess(), NOW)
    assert (first.rows, more.repeats, more.accepted + more.quarantined) == (100, 100, 50)
    whole = tmp_path / "whole"
    load([read_as(csv(tmp_path / "a.csv", 0, 150), SENSORS)], whole, InProcess(), NOW)
    assert kept(snapshot(out)) == kept(snapshot(whole))
    # Other tables come by the log, into the same folder.
    history = world.history(21)
    with run_pipeline(history.write(tmp_path / "log"), out, spark, available_now=True) as run:
        run.wait()
    assert kept(snapshot(out))[:2] == kept(snapshot(whole))[:2]
    assert world.latest_rows(snapshot(out), world.quotes) == history.latest(world.quotes)
    assert world.latest_rows(snapshot(out), world.rooms) == history.latest(world.rooms)


def test_a_wide_file_is_loaded_in_parts_with_the_numbers_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 40)
    monkeypatch.setattr(parts, "BATCH_ROWS", 16)
    rows = pa.table(
        {
            "ts": pa.array(range(0, 50_000_000, 1_000_000), pa.timestamp("us", "UTC")),
            **{f"item{k}": [None if (n + k) % 4 == 0 else n + k / 10 for n in range(50)] for k in range(3)},
        }
    )
    pq.write_table(rows, tmp_path / "wide.parquet", row_group_size=7)
    reading = infer(tmp_path / "wide.parquet")
    assert len(reading.items) == 3
    cut = parts_of(reading)
    assert len(cut) > 2
    whole = [row for arrival in FileSource(reading).arrivals() for row in arrival.batch.to_pylist()]
    assert [row for part in cut for arrival in part.arrivals() for row in arrival.batch.to_pylist()] == whole
    numbers = [n for part in cut for arrival in part.arrivals() for n in (arrival.rows or pa.array([])).to_pylist()]
    assert numbers == [
        n for arrival in FileSource(reading).arrivals() for n in (arrival.rows or pa.array([])).to_pylist()
    ]


def test_damage_is_refused_and_its_surroundings_arrive(tmp_path: Path) -> None:
    path = parquet(tmp_path / "d.parquet", 0, 90)
    offset = pq.read_metadata(path).row_group(1).column(1).data_page_offset
    content = bytearray(path.read_bytes())
    content[offset : offset + 40] = b"\xff" * 40
    path.write_bytes(content)
    reading = read_as(path, SENSORS)
    [part] = parts_of(reading)
    assert part.groups == (0, 1, 2)
    arrivals = list(part.arrivals())
    assert [refusal.reason for arrival in arrivals for refusal in arrival.refused] == ["damaged-rows"]
    assert [n for arrival in arrivals for n in arrival.batch.to_pydict().get("$seq", [])] == [
        *range(1, 31),
        *range(61, 91),
    ]
    path.write_bytes(content[:-10])
    assert parts_of(reading) == [FilePart(reading)], "a torn file is read as a whole, which says what is wrong"


def test_what_cannot_be_loaded_is_said_before_anything_is_done(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", 0, 3)
    with pytest.raises(SourceError, match="two files for table sensors are both called a"):
        load([read_as(path, SENSORS), read_as(path, SENSORS)], tmp_path / "out", InProcess(), NOW)
    naive = tmp_path / "n.csv"
    naive.write_text("sensor,celsius,at\na,1.5,2026-01-01 00:00:00\na,2.5,2026-01-01 00:00:01\n")
    with pytest.raises(SourceError, match="no time zone"):
        load([infer(naive)], tmp_path / "out", InProcess(), NOW)
    gone = replace(read_as(path, SENSORS, source="gone"), path=tmp_path / "gone.csv")
    with pytest.raises(SourceError, match="there is no file"):
        load([read_as(path, SENSORS), gone], tmp_path / "out", InProcess(), NOW, limits=Limits())
    assert not (tmp_path / "out" / "history").exists()
