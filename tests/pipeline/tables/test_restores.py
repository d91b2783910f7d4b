"""Tables over a log that was restored from a copy: made anew where nothing is lost by it, refused otherwise."""

import json
import shutil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from slackwater.core import Instant, LogError, Position, StoreError, disk
from slackwater.core.lineage import FORMER, Place
from slackwater.log import LocalLog, TableDefined, Updates
from slackwater.log.extent import LogExtent
from slackwater.pipeline.jobs.load import load
from slackwater.pipeline.source import LogOptions, LogPart, LogStreamReader
from slackwater.pipeline.tables.commit import commit_batch
from slackwater.pipeline.tables.log_place import check_reports, stand
from slackwater.pipeline.tables.recent import KeepRecent
from slackwater.pipeline.tables.reports import Report, from_rows
from slackwater.pipeline.tables.settle import settle
from slackwater.pipeline.tables.snapshot import snapshot
from slackwater.pipeline.tables.store import TableStore
from slackwater.pipeline.tables.stream import run_pipeline
from slackwater.pipeline.tables.tasks import InProcess
from slackwater.sources import infer
from tests.support.planted_place_bugs import BUGS, Relation

if TYPE_CHECKING:
    from tests.pipeline.conftest import History, World

NOT_COPIED = shutil.ignore_patterns("durable", "lock")


class Restored:
    """A log, its copy at a record, and another history that goes on from the copy."""

    def __init__(self, world: "World", folder: Path, seed: int) -> None:
        self.log, self._copy = folder / "log", folder / "copy"
        self._world = world
        first, second = world.history(seed), world.history(seed + 1)
        self.first = first
        with LocalLog(self.log) as log:
            log.append(first.records[:5])
        shutil.copytree(self.log, self._copy)
        with LocalLog(self.log) as log:
            log.append(first.records[5:])
        others = [one for one in second.records if isinstance(one, Updates)]
        self.second: History = type(first)((*first.records[:5], *others))

    def put_back(self) -> None:
        shutil.rmtree(self.log)
        shutil.copytree(self._copy, self.log, ignore=NOT_COPIED)

    def go_on(self) -> None:
        with LocalLog(self.log) as log:
            log.append(self.second.records[5:])

    def restore(self) -> None:
        self.put_back()
        self.go_on()


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about power cuts."""
    monkeypatch.setattr(disk, "sync", lambda descriptor: None)
    monkeypatch.setattr(disk, "sync_folder", lambda folder: None)


@pytest.fixture
def restored(world: "World", tmp_path: Path) -> Restored:
    return Restored(world, tmp_path, 41)


def taken(store: TableStore, log: LocalLog, end: Position) -> list[Report]:
    """What the task of a micro-batch up to a position reports."""
    reader = LogStreamReader(LogOptions.of({"path": str(log.path)}))
    part = LogPart(int(store.state.position), int(end), log.lineage.place(end))
    keep = KeepRecent(str(store.folder), store.state.position)
    return from_rows(keep(reader.read(InputPartition(part))))


def follow(store: TableStore, log: LocalLog, end: Position | None = None) -> None:
    """What a pipeline does, without Spark."""
    stand(store, log, log.path)
    reports = taken(store, log, log.end if end is None else end)
    check_reports(store, log, reports)
    commit_batch(store, reports)


@pytest.mark.parametrize("settled", [False, True])
def test_tables_of_another_history_are_made_anew(
    settled: bool, world: "World", restored: Restored, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with LocalLog(restored.log, read_only=True) as log, TableStore(out) as store:
        follow(store, log)
        if settled:
            settle(store, InProcess())
        (out / "checkpoint" / "offsets").mkdir(parents=True)
        assert store.state.place == log.lineage.place(log.end)
    world.check(snapshot(out), restored.first)
    restored.restore()
    with LocalLog(restored.log, read_only=True) as log, TableStore(out) as store:
        follow(store, log)
        assert store.state.place == log.lineage.place(log.end)
        assert LogExtent.of(log).relation(snapshot(out).place).value == "held"
    world.check(snapshot(out), restored.second)
    world.check(snapshot(out / "aside"), restored.first)
    assert (out / "aside" / "checkpoint").is_dir()
    assert not (out / "checkpoint").exists()


class Restores:
    """A log that is copied, restored and opened again, and tables that follow it; all follows from the seed."""

    def __init__(self, world: "World", folder: Path, seed: int) -> None:
        self.random, self.world, self.folder = Random(seed), world, folder
        self.pool = world.history(seed, batches=30, rows=10).records
        self.anew = self.copies = 0
        self.writing = LocalLog(folder / "log")
        self.writing.append(self.pool[:2])
        self.copy()

    def append(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.writing.append([self.random.choice(self.pool[2:])])

    def copy(self) -> None:
        shutil.copytree(self.folder / "log", self.folder / f"copy-{self.copies}", ignore=NOT_COPIED)
        self.copies += 1

    def restore(self) -> None:
        self.writing.close()
        shutil.rmtree(self.folder / "log")
        shutil.copytree(self.folder / f"copy-{self.random.randrange(self.copies)}", self.folder / "log")
        self.writing = LocalLog(self.folder / "log")
        self.append()

    def follow(self) -> None:
        out = self.folder / "out"
        with LocalLog(self.folder / "log", read_only=True) as log, TableStore(out) as store:
            before = store.state.manifest.version
            stand(store, log, log.path)
            self.anew += store.state.manifest.version < before
            end = Position(self.random.randint(store.state.position, log.end))
            if end > store.state.position:
                follow(store, log, end)
            if self.random.random() < 0.3:
                settle(store, InProcess())
            records = tuple(entry.record for entry in log.read(Position(0), Position(store.state.position)))
            defined = {one.schema.name for one in records if isinstance(one, TableDefined)}
            assert {table.name for table in snapshot(out).tables} == defined
            self.world.check(snapshot(out), type(self.world.history(1))(records))

    def run(self, steps: int) -> int:
        try:
            for _ in range(steps):
                self.random.choices([self.append, self.copy, self.restore, self.follow], [30, 8, 10, 30])[0]()
        finally:
            self.writing.close()
        return self.anew


def test_tables_hold_what_the_history_of_their_place_holds(world: "World", tmp_path: Path, quick_disk: None) -> None:
    assert sum(Restores(world, tmp_path / str(seed), seed).run(60) for seed in range(3)) > 2


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(
    bug: Relation, world: "World", tmp_path: Path, quick_disk: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogExtent, "relation", bug)
    for seed in range(20):
        try:
            Restores(world, tmp_path / str(seed), seed).run(60)
        except AssertionError:
            return
    pytest.fail("no history shows the bug")


def test_a_place_before_the_copy_is_gone_on_from(world: "World", restored: Restored, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with LocalLog(restored.log, read_only=True) as log, TableStore(out) as store:
        follow(store, log, Position(3))
    offsets = out / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    with LocalLog(restored.log, read_only=True) as log:
        ahead = log.lineage.place(log.end)
        began = log.lineage.place(Position(3))
    restored.restore()
    with LocalLog(restored.log, read_only=True) as log, TableStore(out) as store:
        for place, stays in ((began, True), (ahead, False)):
            # What Spark writes down before a micro-batch begins.
            text = json.dumps({"position": place.position, "incarnation": place.incarnation})
            (offsets / "7").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{text}')
            stand(store, log, log.path)
            assert (out / "checkpoint").exists() is stays
        version = store.state.manifest.version
        follow(store, log)
        assert store.state.manifest.version == version + 1
    assert not (out / "aside").exists()
    world.check(snapshot(out), restored.second)


def test_a_log_that_no_writer_has_opened_yet_decides_nothing(restored: Restored, tmp_path: Path) -> None:
    with LocalLog(restored.log, read_only=True) as log, TableStore(tmp_path / "out") as store:
        follow(store, log)
    restored.put_back()
    with LocalLog(restored.log, read_only=True) as log, TableStore(tmp_path / "out") as store:
        assert log.end < store.state.position
        if LogExtent.of(log).relation(store.state.place).value == "ahead":
            with pytest.raises(StoreError, match="let the server open the log before"):
                stand(store, log, log.path)
        assert not (tmp_path / "out" / "aside").exists()


def test_what_would_be_lost_is_refused(world: "World", restored: Restored, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with LocalLog(restored.log, read_only=True) as log, TableStore(out) as store:
        follow(store, log)
    shutil.copytree(out, tmp_path / "loaded")
    file = tmp_path / "more.csv"
    file.write_text("id,v\na,1\n")
    load([infer(file, table="loaded")], tmp_path / "loaded", InProcess(), Instant(1_800_000_000_000_000))
    restored.restore()
    with (
        LocalLog(restored.log, read_only=True) as log,
        TableStore(tmp_path / "loaded") as store,
        pytest.raises(StoreError, match=r"loaded at position|loaded was made up to position .* files were loaded"),
    ):
        stand(store, log, log.path)
    assert not (tmp_path / "loaded" / "aside").exists()
    with LocalLog(restored.log) as writing:
        writing.drop_before(writing.end)
        writing.append(restored.second.records[5:])
    with (
        LocalLog(restored.log, read_only=True) as log,
        TableStore(out) as store,
        pytest.raises(StoreError, match=r"is no part of the log at .* cannot be made again: put back the copy"),
    ):
        stand(store, log, log.path)
    world.check(snapshot(out), restored.first)


def test_a_micro_batch_over_two_histories_is_not_committed(restored: Restored, tmp_path: Path) -> None:
    with LocalLog(restored.log, read_only=True) as log, TableStore(tmp_path / "out") as store:
        follow(store, log, Position(3))
        reports = taken(store, log, log.end)
        part = LogPart(3, int(log.end), log.lineage.place(log.end))
        restored.restore()
        with pytest.raises(StoreError, match="was replaced while a micro-batch"):
            check_reports(store, log, reports)
        reader = LogStreamReader(LogOptions.of({"path": str(restored.log)}))
        if log.end >= part.end:
            with pytest.raises(LogError, match="was replaced while positions"):
                list(reader.read(InputPartition(part)))


def test_offsets_of_another_history_are_refused(restored: Restored) -> None:
    reader = LogStreamReader(LogOptions.of({"path": str(restored.log)}))
    began = reader.initialOffset()
    first = reader.latestOffset(began, ReadAllAvailable())
    restored.restore()
    with pytest.raises(LogError, match=r"is no part of the log at .* begin with a new checkpoint"):
        reader.latestOffset(first, ReadAllAvailable())
    with pytest.raises(LogError, match="no part of the log"):
        LogStreamReader(
            LogOptions.of({"path": str(restored.log), "start": "20", "incarnation": str(first["incarnation"])})
        ).initialOffset()
    early = {**began, "position": 3}
    assert reader.latestOffset(early, ReadAllAvailable())["position"] > 3, "the copy has it too"


def test_a_checkpoint_and_a_folder_from_before_incarnations_go_on(
    world: "World", restored: Restored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slackwater.log import segment

    former = tmp_path / "former"
    with monkeypatch.context() as patched:
        patched.setattr(segment.SegmentHeader, "to_bytes", header_of_before)
        with LocalLog(former) as log:
            log.append(restored.first.records[:5])
            middle = log.end
    with LocalLog(former, read_only=True) as log, TableStore(tmp_path / "out") as store:
        assert not log.lineage.incarnations
        follow(store, log)
        assert store.state.place == Place(FORMER, middle)
    # A folder as it was written then: the manifest names no incarnation.
    [*_, newest] = sorted((tmp_path / "out" / "manifest").iterdir())
    plain = json.loads(newest.read_bytes())
    del plain["incarnation"]
    newest.write_text(json.dumps(plain))
    with LocalLog(former) as log:
        log.append(restored.first.records[5:])
        with TableStore(tmp_path / "out") as store:
            follow(store, log)
            assert store.state.place.incarnation == log.lineage.current
        reader = LogStreamReader(LogOptions.of({"path": str(former)}))
        later = reader.latestOffset({"position": int(middle)}, ReadAllAvailable())
        assert later == {"position": log.end, "incarnation": log.lineage.current}
        with pytest.raises(LogError, match="no part of the log"):
            reader.latestOffset({"position": int(middle) + 1}, ReadAllAvailable())
    world.check(snapshot(tmp_path / "out"), restored.first)


def header_of_before(header: object) -> bytes:
    """A segment's header in format 1: the catalog alone."""
    import zlib

    from slackwater.log import segment
    from slackwater.log.records import encode_tables

    assert isinstance(header, segment.SegmentHeader)
    catalog = encode_tables(header.catalog.tables)
    fixed = segment._HEADER.pack(
        segment.MAGIC,
        1,
        0,
        header.first,
        header.begun,
        header.previous_first,
        header.previous_bytes,
        header.salt,
        len(catalog),
    )
    checked = fixed[16:] + catalog + bytes(-len(catalog) % 8)
    return fixed[:12] + zlib.crc32(checked).to_bytes(4, "little") + checked


def test_a_pipeline_on_spark_over_a_restore(
    world: "World", spark: SparkSession, restored: Restored, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out"
    with run_pipeline(restored.log, out, spark) as run:
        with LocalLog(restored.log, read_only=True) as log:
            while run.position < log.end:
                assert not run.wait(0.05)
        world.check(snapshot(out), restored.first)
        # The log is replaced under a pipeline that runs.
        restored.restore()
        # It finds a folder that is being copied, or another history.
        with pytest.raises(StoreError, match="stopped at position"):
            run.wait(120)
    with run_pipeline(restored.log, out, spark, available_now=True) as run:
        run.wait()
    assert [one.message.count("the tables are made anew from the log") for one in caplog.records] == [1]
    world.check(snapshot(out), restored.second)
    world.check(snapshot(out / "aside"), restored.first)
