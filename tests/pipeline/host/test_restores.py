"""A Spark host over a log that is restored from copies: it begins anew where it must, and says nothing of before."""

import logging
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from slackwater.core import Aggregate, Position, Selection
from slackwater.core.errors import PositionGone, StoreError
from slackwater.hosting.engine import QueryEngine
from slackwater.hosting.publication_log import PublicationReader, PublicationsReplaced, read_editions
from slackwater.hosting.replica import Replica
from slackwater.kinds.registry import answer_table
from slackwater.log import LocalLog
from slackwater.log.extent import LogExtent
from slackwater.pipeline.host.executor_affinity import OnExecutors
from slackwater.pipeline.host.shards import ShardReport, ShardTask
from slackwater.pipeline.host.spark_host import ShardRunner, SparkHost
from slackwater.processing.columns import python_rows
from tests.support.log_restores import RestoredLog
from tests.support.spark_hardship import exact
from tests.support.spark_workers import Workers, everything


def right(replica: Replica, log: LocalLog) -> None:
    """Every answer is within its bound of what the records of this log say at its position."""
    truth = QueryEngine(everything)
    for _ in truth.steps(log.read(Position(0), replica.position)):
        pass
    assert {*replica.registrations} == {*truth.registrations}
    for number in truth.registrations:
        query, said = truth.query(number), replica.answer(number)
        now = truth.host.register(number, query, truth.position)
        if isinstance(query, Aggregate):
            assert (said.value is None) == (now.value is None)
            if said.value is not None and now.value is not None:
                assert abs(said.value - now.value) <= query.bound.within + 1e-9 * abs(now.value)
        elif isinstance(query, Selection):
            # Columns that are not shown are not published either.
            names = [*dict.fromkeys((*replica.schema(answer_table(query)).key, *query.columns))]
            assert said.rows is not None
            assert now.rows is not None
            rows = [sorted(map(repr, python_rows(one.select(names)))) for one in (said.rows, now.rows)]
            assert rows[0] == rows[1]


class Interrupted:
    """Workers under whose hands the log is restored now and then."""

    def __init__(self, workers: ShardRunner, world: "Restores") -> None:
        self._workers, self._world = workers, world

    @property
    def width(self) -> int:
        return self._workers.width

    def __call__(self, task: ShardTask, shards: list[int]) -> list[ShardReport]:
        before = self._workers(task, shards[:1])
        if self._world.random.random() < 0.1:
            self._world.restore()
        return before + self._workers(task, shards[1:])


class Restores:
    """A log, a host and a server's reader; all that happens follows from the seed."""

    def __init__(self, folder: Path, seed: int, runner: ShardRunner) -> None:
        self.folder, self.random = folder, Random(seed)
        self.world = RestoredLog(folder, seed)
        self._runner = Interrupted(runner, self)
        self.host = self._host()
        self.reader = self._reading()
        self.anew = 0
        self._edition = self._first_edition()

    def _host(self) -> SparkHost:
        return SparkHost(self.folder / "log", self.folder / "host", self._runner, shards=2, snapshot_rows=20)

    def _reading(self) -> PublicationReader:
        return PublicationReader(self.folder / "host", lambda: LogExtent.of(self.world.log))

    def _first_edition(self) -> int:
        return read_editions(self.folder / "host").incarnations[0].number

    def restore(self) -> None:
        self.world.put_back()
        if self.random.random() < 0.3:
            self.world.open()
        else:
            # A host that looks at it before its writer has opened it.
            self.world.log = LocalLog(self.world.folder, read_only=True)
            if self.random.random() < 0.5:
                self.look()
            self.world.open()
        if self.random.random() < 0.7:
            self.world.append()

    def look(self) -> None:
        for _ in range(self.random.choice([1, 40])):
            try:
                found = self.reader.next()
            except (PositionGone, PublicationsReplaced):
                self.reader = self._reading()
                continue
            if found is not None:
                self.reader.replica.apply(found)
        if self.reader.doubt is None and self.reader._in_vain % 20 == 1:
            right(self.reader.replica, self.world.log)

    def step(self) -> None:
        happens = self.random.random()
        if happens < 0.35:
            self.world.append()
        elif happens < 0.45:
            self.world.copy()
        elif happens < 0.55:
            self.restore()
        elif happens < 0.62:
            if self.random.random() < 0.5:
                self.host.keep_snapshots()
            self.host.close()
            self.host = self._host()
        self.host.batch()
        self.look()
        first = self._first_edition()
        self.anew, self._edition = self.anew + (first != self._edition), first

    def settle(self) -> None:
        self.world.append()
        while self.host.batch():
            pass
        assert self.host.position == self.world.log.end
        exact(self.host, self.world.log)
        for _ in range(3):
            self.reader._in_vain = 0
            self.look()
        while self.reader.next() is not None:
            pass
        self.look()

    def close(self) -> None:
        self.host.close()
        self.world.close()


def restores(folder: Path, seed: int, runner: ShardRunner, steps: int) -> int:
    world = Restores(folder, seed, runner)
    try:
        for _ in range(steps):
            world.step()
        world.settle()
    finally:
        world.close()
    return world.anew


def test_a_host_over_restored_logs(tmp_path: Path) -> None:
    anew = sum(restores(tmp_path / str(seed), seed, Workers(seed, deaths=0.1), 40) for seed in range(3))
    assert anew > 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 110))
def test_a_host_over_restored_logs_often(seed: int, tmp_path: Path) -> None:
    restores(tmp_path, seed, Workers(seed, deaths=0.1), 80)


def test_on_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    """Executors keep logs open: they see that one was replaced under them."""
    assert restores(tmp_path, 1_014, OnExecutors(spark.sparkContext), 10) > 1


def worker_comes_back(tmp_path: Path) -> None:
    """A worker stays away while the log is restored, and comes back as it was, at a position that was taken again."""
    world, workers = RestoredLog(tmp_path, 5), Workers(1, workers=2)
    away, here = workers._live
    with SparkHost(world.folder, tmp_path / "host", workers, shards=1) as host:
        while len(world.history.standing) < 8:
            world.append()
        world.copy()
        world.append(40)
        workers._live = [away]
        assert host.batch()
        was = host.position
        world.put_back()
        world.open()
        while world.log.end < was:
            world.log.append(world.history.more(1))
        workers._live, host._max_rows = [here], was
        assert host.batch()
        assert host.position == was
        workers._live = [away]
        world.append(40)
        while host.batch():
            pass
        assert host.position == world.log.end
    reader = PublicationReader(tmp_path / "host")
    reader.catch_up()
    right(reader.replica, world.log)
    world.close()


def test_a_worker_that_read_another_history_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker_comes_back(tmp_path / "sound")
    monkeypatch.setattr(ShardTask, "counts", lambda *_: True)
    with pytest.raises((AssertionError, KeyError)):
        worker_comes_back(tmp_path / "planted")


def test_a_planted_bug_of_reading_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard that does not look at the log again when it has read."""
    monkeypatch.setattr(ShardTask, "check_history", lambda _: None)
    with pytest.raises((AssertionError, KeyError, StoreError)):
        _ = [restores(tmp_path / str(seed), seed, Workers(seed, deaths=0.1), 40) for seed in range(3, 20)]


def test_a_log_that_does_not_begin_at_0_is_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    world = RestoredLog(tmp_path, 6)
    with SparkHost(world.folder, tmp_path / "host", Workers(1), shards=1) as host:
        world.append()
        world.copy()
        while world.log.end < 60:
            world.append()
        assert host.batch()
    world.close()
    with LocalLog(tmp_path / "copies" / "1") as log:
        log.drop_before(log.end)
        log.append(world.history.more(1))
        assert 0 < log.start <= 60
    before = {path.name for path in (tmp_path / "host").iterdir()}
    with pytest.raises(StoreError, match=r"no part of the log at .*; it begins at position .* put back the copy"):
        SparkHost(tmp_path / "copies" / "1", tmp_path / "host", Workers(1), shards=1)
    assert before <= {path.name for path in (tmp_path / "host").iterdir()}
    assert not (tmp_path / "host" / "aside").exists()


def test_a_log_that_no_writer_has_opened_yet_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = RestoredLog(tmp_path, 7)
    with SparkHost(world.folder, tmp_path / "host", Workers(1), shards=1) as host:
        world.append()
        assert host.batch()
        was = host.position
        world.put_back()
        with caplog.at_level(logging.WARNING, "slackwater.pipeline"):
            assert not host.batch()
            assert not host.batch()
        assert [record.message.count("waiting until it shows more") for record in caplog.records] == [1]
        assert host.position == was
        world.open()
        world.append()
        with caplog.at_level(logging.WARNING, "slackwater.pipeline"):
            assert host.batch()
        assert "everything is made anew from the log" in caplog.records[-1].message
        exact(host, world.log)
    world.close()
