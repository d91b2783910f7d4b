"""The Spark host says what a node would say, byte by byte, whatever dies and whoever keeps what."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slackwater.core import (
    Aggregate,
    HostKind,
    Position,
    Selection,
)
from slackwater.core.errors import StoreError
from slackwater.hosting.engine import QueryEngine
from slackwater.hosting.publication_log import PublicationReader, batch_starts
from slackwater.log import LocalLog
from slackwater.log.jetstream import JetStreamLog
from slackwater.pipeline import source
from slackwater.pipeline.host.executor_affinity import OnExecutors
from slackwater.pipeline.host.shard_assignment import Sharding
from slackwater.pipeline.host.shards import ShardReport
from slackwater.pipeline.host.spark_host import SparkHost
from slackwater.processing.columns import python_rows
from tests.support.histories import History
from tests.support.nats_server import NatsServer
from tests.support.spark_hardship import exact, hardship
from tests.support.spark_workers import Workers, everything, published, run


@pytest.mark.parametrize("seed", range(15))
def test_what_is_said_is_what_a_node_says(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, Workers(seed, deaths=0.15), batches=14, restarts=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 180))
def test_what_is_said_is_what_a_node_says_often(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, Workers(seed, deaths=0.2), batches=20, restarts=0.2)


def test_on_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    """20 histories; two shards whose workers change places, as they do with more than one core."""
    for seed in range(20):
        run(1_000 + seed, tmp_path / str(seed), OnExecutors(spark.sparkContext), batches=4)


@pytest.mark.parametrize("seed", range(10))
def test_other_cuts_end_within_every_bound(seed: int, tmp_path: Path) -> None:
    history = History(seed)
    with LocalLog(tmp_path / "log") as log:
        log.append(history.beginning() + history.more(120))
        with SparkHost(tmp_path / "log", tmp_path / "host", Workers(seed), max_rows=37 + seed) as host:
            while host.batch():
                pass
        fresh = QueryEngine(everything)
        for _ in fresh.steps(log.read(Position(0))):
            pass
        reader = PublicationReader(tmp_path / "host")
        reader.catch_up()
        assert {*reader.replica.registrations} == {*fresh.registrations}
        for number in fresh.registrations:
            query = fresh.query(number)
            said = reader.replica.answer(number)
            truth = fresh.host.register(number, query, fresh.position)
            if isinstance(query, Selection):
                assert sorted(map(repr, python_rows(said.rows))) == sorted(map(repr, python_rows(truth.rows)))
            else:
                assert isinstance(query, Aggregate)
                if said.value is None or truth.value is None:
                    assert said.value == truth.value
                else:
                    assert abs(said.value - truth.value) <= query.bound.within + 1e-9 * abs(truth.value)


def test_shards_that_change_say_only_what_is_new(tmp_path: Path) -> None:
    """From one shard to three: the clients' values stay within their bounds, rows are not said again."""
    history = History(5)
    with LocalLog(tmp_path / "log") as log:
        log.append(history.beginning() + history.more(60))
        host = SparkHost(tmp_path / "log", tmp_path / "host", Workers(1), shards=1)
        assert host.batch()
        host.reshard(3)
        log.append(history.more(1))
        before = host.position
        assert host.batch()
        assert host.sharding.shards == 3
        publication = published(tmp_path / "host", before)
        first = publication.steps[0].step
        assert first.position == before
        assert not first.notifications.rows
        log.append(history.more(40))
        assert host.batch()
        exact(host, log)
        host.close()


@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_through_every_hardship(seed: int, tmp_path: Path) -> None:
    hardship(seed, tmp_path, 60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 162))
def test_bounds_hold_through_every_hardship_often(seed: int, tmp_path: Path) -> None:
    hardship(seed, tmp_path, 100)


def test_a_shard_without_a_snapshot_is_made_anew(tmp_path: Path) -> None:
    history = History(8)
    workers = Workers(1, workers=1)
    with LocalLog(tmp_path / "log") as log:
        log.append(history.beginning() + history.more(80))
        with SparkHost(tmp_path / "log", tmp_path / "host", workers, shards=2, snapshot_rows=20) as host:
            assert host.batch()
            for _ in range(30):
                log.append(history.more(4))
                assert host.batch()
                if batch_starts(tmp_path / "host")[0] > 0:
                    break
            else:
                pytest.fail("the beginning of what was said is still there")
            for path in (tmp_path / "host" / "shards" / "1").iterdir():
                path.write_bytes(b"damaged")
            workers._live[0].clear()
            log.append(history.more(2))
            assert host.batch()
            exact(host, log)
            log.append(history.more(20))
            assert host.batch()
            exact(host, log)


def test_one_host_at_a_time(tmp_path: Path) -> None:
    with LocalLog(tmp_path / "log") as log:
        log.append(History(1).beginning())
        with (
            SparkHost(tmp_path / "log", tmp_path / "host", Workers(1)),
            pytest.raises(StoreError, match="another host"),
        ):
            SparkHost(tmp_path / "log", tmp_path / "host", Workers(1))


def test_a_busy_shard_gives_queries_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(3)
    made = SparkHost._note

    def slow(self: SparkHost, reports: list[ShardReport]) -> None:
        """Shard 0 takes as long as its queries weigh."""
        import msgspec

        weighed = dict.fromkeys((0, 1), 0.0)
        for bucket, weight in self._weights.items():
            weighed[self.sharding.owners[bucket]] += weight if bucket % 2 == 0 else 0
        made(self, [msgspec.structs.replace(one, seconds=0.01 + weighed[one.shard] / 1000) for one in reports])

    monkeypatch.setattr(SparkHost, "_note", slow)
    with LocalLog(tmp_path / "log") as log:
        log.append(history.beginning() + history.more(300))
        with SparkHost(tmp_path / "log", tmp_path / "host", Workers(1, workers=1), shards=2) as host:
            assert host.batch()
            first = host.sharding
            for _ in range(40):
                log.append(history.more(1))
                assert host.batch()
            assert host.sharding.epoch > first.epoch
            exact(host, log)


def test_the_log_may_be_a_stream(nats_server: NatsServer, tmp_path: Path) -> None:
    """Shards read the stream by themselves, as executors on several machines would."""
    history, address = History(21), f"{nats_server.url}/spark-host"
    with JetStreamLog(address) as log:
        log.append(history.beginning() + history.more(40))
        with SparkHost(address, tmp_path / "host", Workers(2)) as host:
            while host.batch():
                pass
            log.append(history.more(10))
            assert host.batch()
            exact(host, log)
    source.opened(address).close()
    source.opened.cache_clear()


def test_even_sharding_is_even() -> None:
    made = Sharding.even(0, 0, 3)
    counts = [made.owners.count(shard) for shard in range(3)]
    assert max(counts) - min(counts) <= 1
    assert HostKind.SPARK.value == "spark"
