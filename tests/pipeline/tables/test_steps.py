"""Every step of the pipeline without Spark: cut anywhere, crashed anywhere, the outcome is the plain fold's."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyspark.sql.datasource import InputPartition

from slackwater.core import Column, DataType, Instant, Origin, Position, SchemaError, StoreError, Update
from slackwater.core.arrow import to_batch
from slackwater.log import LocalLog, TableDefined, TableDropped, Updates
from slackwater.pipeline.source import LogOptions, LogPart, LogStreamReader
from slackwater.pipeline.tables import compaction, latest
from slackwater.pipeline.tables import settle as settling
from slackwater.pipeline.tables.commit import commit_batch
from slackwater.pipeline.tables.recent import KeepRecent
from slackwater.pipeline.tables.reports import Report, from_rows
from slackwater.pipeline.tables.settle import compact, settle, tidy
from slackwater.pipeline.tables.snapshot import snapshot
from slackwater.pipeline.tables.store import TableStore
from slackwater.pipeline.tables.tasks import InProcess

if TYPE_CHECKING:
    from tests.pipeline.conftest import World


def taken(store: TableStore, log: Path, first: int, end: int, tasks: int = 1) -> list[Report]:
    """What the tasks of a micro-batch over these positions report."""
    reader = LogStreamReader(LogOptions.of({"path": str(log)}))
    cuts = [first + (end - first) * k // tasks for k in range(tasks + 1)]
    keep = KeepRecent(str(store.folder), store.state.position)
    with LocalLog(log, read_only=True) as opened:
        place = opened.lineage.place(Position(end))
    parts = [LogPart(*span, place) for span in pairwise(cuts) if span[0] < span[1]]
    return [report for part in parts for report in from_rows(keep(reader.read(InputPartition(part))))]


def everything(log: Path, out: Path) -> None:
    with LocalLog(log, read_only=True) as opened, TableStore(out) as store:
        commit_batch(store, taken(store, log, store.state.position, opened.end))


def steps(world: "World", seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history through random micro-batches, settlings, crashes and repetitions."""
    # Small enough for everything to happen: several tasks a settling, merges, buckets that split.
    monkeypatch.setattr(settling, "TASK_ROWS", 60)
    monkeypatch.setattr(latest, "BUCKET_KEYS", 4)
    monkeypatch.setattr(latest, "FOLD_ROWS", 10)
    monkeypatch.setattr(compaction, "FULL_ROWS", 120)
    random, history = Random(seed), world.history(seed)
    log = history.write(folder / "log")
    with LocalLog(log, read_only=True) as opened:
        end = opened.end
    store = TableStore(folder / "out")
    while store.state.position < end:
        first = max(0, store.state.position - random.choice([0, 0, 0, 7]))  # an older checkpoint repeats some
        upto = min(end, store.state.position + random.randint(1, 90))
        reports = taken(store, log, first, upto, tasks=random.randint(1, 3))
        if random.random() < 0.2:
            store.release()  # killed before the commit: the same again, or cut otherwise
            store = TableStore(folder / "out")
            continue
        commit_batch(store, reports)
        assert commit_batch(store, taken(store, log, first, upto)) == 0, "a repeated batch changes nothing"
        if random.random() < 0.3:
            if random.random() < 0.3:
                tasks, folds = settling.plan(store.state)
                InProcess()(store, tasks, folds)  # killed before the commit
                store.release()
                store = TableStore(folder / "out")
            settle(store, InProcess(), thorough=random.random() < 0.2)
            world.check(snapshot(folder / "out"), history.upto(store.state.position))
    world.check(snapshot(folder / "out"), history)
    settle(store, InProcess())
    tidy(store)
    world.check(snapshot(folder / "out"), history)
    on_disk = {
        str(path.relative_to(store.folder))
        for top in ("recent", "latest", "history", "quarantine")
        for path in (store.folder / top).rglob("*")
        if path.is_file()
    }
    assert on_disk == store.state.paths(), "nothing is left over"
    store.release()


@pytest.mark.parametrize("seed", range(12))
def test_cut_and_crashed_anywhere_the_outcome_is_the_plain_fold(
    seed: int, world: "World", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps(world, seed, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 500))
def test_the_same_with_many_seeds(seed: int, world: "World", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps(world, seed, tmp_path, monkeypatch)


def test_a_dropped_table_takes_its_rows_along(world: "World", tmp_path: Path) -> None:
    quotes, log, out = world.quotes, tmp_path / "log", tmp_path / "out"

    def says(price: float, sequence: int) -> Updates:
        return Updates("quotes", to_batch(quotes, [Update("quotes", ("a", price), Instant(0), Origin("s", sequence))]))

    with LocalLog(log) as writing:
        writing.append([TableDefined(quotes), says(9.0, 9)])
        everything(log, out)
        with TableStore(out) as store:
            settle(store, InProcess())
        # Dropped and made again within one batch, with rows before and after.
        writing.append([says(8.0, 8), TableDropped("quotes"), TableDefined(quotes), says(1.0, 1)])
        everything(log, out)
        assert world.latest_rows(snapshot(out), quotes) == {("a", 1.0)}
        assert [update.row for update in world.history_rows(snapshot(out), quotes)] == [("a", 1.0)]
        writing.append([TableDropped("quotes")])
        everything(log, out)
    with pytest.raises(SchemaError, match="there are: none"):
        snapshot(out).latest("quotes")
    with TableStore(out) as store:
        settle(store, InProcess())
        tidy(store)
    assert not list(out.glob("*/**/*.parquet"))


def test_an_added_column_is_null_in_older_rows(world: "World", tmp_path: Path) -> None:
    quotes, log, out = world.quotes, tmp_path / "log", tmp_path / "out"
    wider = quotes.with_column(Column("venue", DataType.TEXT))
    old = Update("quotes", ("a", 1.0), Instant(0), Origin("s", 1))
    new = Update("quotes", ("b", 2.0, "X"), Instant(0), Origin("s", 2))
    for settled_between in (False, True):
        with LocalLog(log / str(settled_between)) as writing:
            writing.append([TableDefined(quotes), Updates("quotes", to_batch(quotes, [old]))])
            if settled_between:
                everything(log / str(settled_between), out / str(settled_between))
                with TableStore(out / str(settled_between)) as store:
                    settle(store, InProcess())
            writing.append([TableDefined(wider), Updates("quotes", to_batch(wider, [new]))])
        everything(log / str(settled_between), out / str(settled_between))
        for _ in range(2):
            now = snapshot(out / str(settled_between))
            assert world.latest_rows(now, wider) == {("a", 1.0, None), ("b", 2.0, "X")}
            assert {update.row for update in world.history_rows(now, wider)} == {("a", 1.0, None), ("b", 2.0, "X")}
            with TableStore(out / str(settled_between)) as store:
                settle(store, InProcess(), thorough=True)


def test_rows_of_a_table_that_was_never_defined_are_not_guessed_at(world: "World", tmp_path: Path) -> None:
    log = replace(world.history(1), records=world.history(1).records[2:]).write(tmp_path / "log")
    with pytest.raises(StoreError, match="never defined"):
        everything(log, tmp_path / "out")


def test_a_hole_between_batches_is_refused(world: "World", tmp_path: Path) -> None:
    log = world.history(1).write(tmp_path / "log")
    with TableStore(tmp_path / "out") as store, pytest.raises(StoreError, match="position 5 where 0 was next"):
        commit_batch(store, taken(store, log, 5, 9))


def test_history_lies_by_table_and_date_in_few_files(world: "World", tmp_path: Path) -> None:
    history = world.history(3, batches=60)
    log = history.write(tmp_path / "log")
    with LocalLog(log, read_only=True) as opened, TableStore(tmp_path / "out") as store:
        while store.state.position < opened.end:
            position = store.state.position
            commit_batch(store, taken(store, log, position, min(position + 50, opened.end)))
            settle(store, InProcess())
        few = len(list((tmp_path / "out" / "history").rglob("*.parquet")))
    compact(tmp_path / "out", InProcess())
    files = sorted((tmp_path / "out" / "history").rglob("*.parquet"))
    assert len(files) < few
    assert {file.parent.parent.name for file in files} == {"table=quotes", "table=rooms%20%2F%201"}
    assert len(files) == len({file.parent for file in files}), "one file for a table and date"
    for file in files:
        times = pa.parquet.read_table(file, partitioning=None).column("$time")
        assert {f"date={time:%Y-%m-%d}" for time in times.to_pylist()} == {file.parent.name}
    whole = pa.dataset.dataset(tmp_path / "out" / "history", partitioning="hive", format="parquet")
    assert whole.count_rows() == sum(len(history.updates(table)) for table in (world.quotes, world.rooms))
    world.check(snapshot(tmp_path / "out"), history)
