"""The running pipeline on Spark: what it keeps equals the plain fold, whenever it is stopped and started."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from slackwater.core import LogError, PositionGone, StoreError
from slackwater.log import LocalLog
from slackwater.pipeline.tables.frames import history_frame, latest_frame, quarantine_frame
from slackwater.pipeline.tables.snapshot import position_of, read_history, read_latest, read_quarantine, snapshot
from slackwater.pipeline.tables.stream import BatchProgress, run_pipeline

if TYPE_CHECKING:
    from tests.pipeline.conftest import World


def until(true: Callable[[], bool]) -> None:
    """Wait for something that must come."""
    give_up = time.monotonic() + 120
    while not true():
        assert time.monotonic() < give_up, "it did not come"
        time.sleep(0.02)


def test_what_is_there_is_taken_in_and_the_same_from_spark(world: "World", spark: SparkSession, tmp_path: Path) -> None:
    history = world.history(11)
    log, out = history.write(tmp_path / "log"), tmp_path / "out"
    told: list[BatchProgress] = []
    with run_pipeline(log, out, spark, available_now=True, max_rows=80, settle_batches=3, progress=told.append) as run:
        assert run.wait()
    with LocalLog(log, read_only=True) as opened:
        assert told[-1].position == run.position == snapshot(out).position == opened.end
        assert sum(one.rows for one in told) == opened.end
    assert any(one.settling > 0 for one in told)
    world.check(snapshot(out), history)
    latest = read_latest(out, "quotes")
    assert position_of(latest) == run.position
    frame = latest_frame(spark, out, "quotes")
    assert {(row.symbol, row.price) for row in frame.collect()} == history.latest(world.quotes)
    assert history_frame(spark, out, "quotes").count() == read_history(out, "quotes").count_rows()
    assert quarantine_frame(spark, out).count() == read_quarantine(out).count_rows() == len(history.refused())
    assert quarantine_frame(spark, out, "no such table").count() == 0


def test_it_follows_a_log_that_grows_and_goes_on_where_it_was(
    world: "World", spark: SparkSession, tmp_path: Path
) -> None:
    history = world.history(12)
    log, out = tmp_path / "log", tmp_path / "out"
    with LocalLog(log) as writing:
        for nth, part in enumerate((history.records[:6], history.records[6:9], history.records[9:])):
            writing.append(part[:1])
            if nth == 2:
                # The manifest alone is enough.
                (out / "checkpoint").rename(tmp_path / "lost")
            with run_pipeline(log, out, spark, settle_batches=2) as run:
                for record in part[1:]:
                    end = writing.append([record])
                    until(lambda end=end: run.position >= end)  # type: ignore[misc]
                    assert snapshot(out).position >= end
                assert not run.wait(0)
            assert not run.running
            run.stop()  # again, to no effect
            world.check(snapshot(out), history.upto(writing.end))
    world.check(snapshot(out), history)


def test_a_second_writer_is_refused_and_the_first_goes_on(world: "World", spark: SparkSession, tmp_path: Path) -> None:
    history = world.history(13)
    log, out = history.write(tmp_path / "log"), tmp_path / "out"
    with run_pipeline(log, out, spark) as run:
        with pytest.raises(StoreError, match="another pipeline or load"):
            run_pipeline(log, out, spark)
        with LocalLog(log, read_only=True) as opened:
            until(lambda: run.position == opened.end)
    world.check(snapshot(out), history)


def test_readers_beside_a_running_pipeline_always_see_one_position(
    world: "World", spark: SparkSession, tmp_path: Path
) -> None:
    history = world.history(14)
    log, out = history.write(tmp_path / "log"), tmp_path / "out"
    done, trouble = threading.Event(), list[BaseException]()
    seen = set[int]()

    def read() -> None:
        try:
            while not done.is_set():
                if any(out.glob("manifest/*.json")) and any(one.name == "quotes" for one in snapshot(out).tables):
                    latest = read_latest(out, "quotes")
                    position = position_of(latest)
                    seen.add(position)
                    rows = set(zip(latest["symbol"].to_pylist(), latest["price"].to_pylist(), strict=True))
                    assert rows == history.upto(position).latest(world.quotes)
        except BaseException as error:
            trouble.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        with run_pipeline(log, out, spark, available_now=True, max_rows=60, settle_batches=1) as run:
            run.wait()
    finally:
        done.set()
        thread.join()
    assert not trouble
    assert len(seen) > 1


def test_what_cannot_go_together_is_refused_with_advice(world: "World", spark: SparkSession, tmp_path: Path) -> None:
    log = world.history(15).write(tmp_path / "log")
    with pytest.raises(LogError, match="no readable log"):
        run_pipeline(tmp_path / "nowhere", tmp_path / "out", spark)
    with pytest.raises(StoreError, match="there is nothing in"):
        snapshot(tmp_path / "out")
    with run_pipeline(log, tmp_path / "out", spark, available_now=True) as run:
        run.wait()
    with LocalLog(log) as writing:
        writing.append(world.history(15).records[2:3])
        writing.drop_before(writing.end)
        dropped = writing.end
        writing.append(world.history(15).records[2:3])
    with pytest.raises(PositionGone, match="was dropped before it was read"):
        run_pipeline(log, tmp_path / "out", spark)
    # A new folder begins where the log does, and knows the tables that were defined in what was dropped.
    with run_pipeline(log, tmp_path / "new", spark, available_now=True) as run:
        run.wait()
    now = snapshot(tmp_path / "new")
    assert now.state.manifest.begun == dropped
    assert {table.name for table in now.tables} == {"quotes", "rooms / 1"}


def test_a_failure_on_an_executor_is_told_in_a_sentence(world: "World", spark: SparkSession, tmp_path: Path) -> None:
    log, out = world.history(17).write(tmp_path / "log"), tmp_path / "out"
    out.mkdir()
    (out / "recent").touch()
    with (
        run_pipeline(log, out, spark, available_now=True) as run,
        pytest.raises(StoreError, match=r"stopped at position 0: .*recent.*start it again"),
    ):
        run.wait()
    (out / "recent").unlink()
    with run_pipeline(log, out, spark, available_now=True) as run:
        run.wait()
    world.check(snapshot(out), world.history(17))


def test_a_failure_of_ours_is_raised_as_it_is(
    world: "World", spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slackwater.pipeline.tables import stream

    def broken(*_: object) -> int:
        raise StoreError("the disk is full")

    monkeypatch.setattr(stream, "commit_batch", broken)
    log = world.history(16).write(tmp_path / "log")
    with run_pipeline(log, tmp_path / "out", spark, available_now=True) as run, pytest.raises(StoreError, match="full"):
        run.wait()
    monkeypatch.undo()
    with run_pipeline(log, tmp_path / "out", spark, available_now=True) as run:
        run.wait()
    world.check(snapshot(tmp_path / "out"), world.history(16))
