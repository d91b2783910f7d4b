"""A Spark host whose workers stay away and come back, whose shards move and whose driver restarts; in one process."""

from pathlib import Path
from random import Random

from slackwater.core import (
    Aggregate,
    AggregateFunction,
    Bound,
    HostKind,
    Instant,
    Origin,
    Position,
    Update,
    Weight,
)
from slackwater.core.arrow import to_batch
from slackwater.hosting.engine import QueryEngine
from slackwater.hosting.publication_log import PublicationReader
from slackwater.kinds.registry import plain_query
from slackwater.log import LocalLog, Log, Record, Registered, TableDefined, Updates
from slackwater.pipeline.host.shard_assignment import Sharding
from slackwater.pipeline.host.shards import ShardReport, ShardTask
from slackwater.pipeline.host.spark_host import SparkHost
from tests.support.histories import QUOTES
from tests.support.spark_workers import Workers, everything


def exact(host: SparkHost, log: Log) -> None:
    """Every value said is within its bound of the truth."""
    truth = QueryEngine(everything)
    for _ in truth.steps(log.read(Position(0))):
        pass
    reader = PublicationReader(host._folder)
    reader.catch_up()
    for number in truth.registrations:
        query = truth.query(number)
        if isinstance(query, Aggregate):
            said, now = reader.replica.answer(number).value, truth.host.register(number, query, truth.position).value
            assert (said is None) == (now is None)
            if said is not None and now is not None:
                assert abs(said - now) <= query.bound.within + 1e-9 * abs(now)


class Absent(Workers):
    """The same with workers that stay away for long and come back as they were."""

    def __call__(self, task: ShardTask, shards: list[int]) -> list[ShardReport]:
        if self._random.random() < 0.15:
            self._there = self._random.sample(self._live, self._random.randint(1, len(self._live)))
        told = []
        for shard in shards:
            worker = self._random.choice(self._there)
            if self._random.random() < self._deaths:
                worker.clear()
            told.append(task.on(worker, shard))
        return told

    def __init__(self, seed: int) -> None:
        super().__init__(seed, workers=4, deaths=0.1)
        self._there = self._live


class Drift:
    """Six prices that move a little at a time under looser sums: each decision depends on the value last published."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._prices = [100.0] * 6
        self._sequence = 0

    def beginning(self) -> list[Record]:
        sums: list[Record] = []
        for _ in range(12):
            keys = self._random.sample(range(6), 3)
            weights = tuple(Weight((f"S{key}",), self._random.choice([1.0, -1.0])) for key in keys)
            bound = Bound(self._random.choice([4.0, 8.0, 12.0]))
            query = Aggregate("quotes", AggregateFunction.SUM, "price", bound, weights=weights)
            sums.append(Registered("quotes", "", "ann", query=plain_query(query), host=HostKind.SPARK.value))
        return [TableDefined(QUOTES), self.more(), *sums]

    def more(self) -> Updates:
        made = []
        for _ in range(self._random.randint(1, 4)):
            key = self._random.randrange(6)
            self._prices[key] += self._random.choice([-3.0, -1.0, 1.0, 3.0])
            self._sequence += 1
            row = (f"S{key}", self._prices[key], None)
            made.append(Update("quotes", row, Instant(self._sequence), Origin("a", self._sequence)))
        return Updates("quotes", to_batch(QUOTES, made))


def hardship(seed: int, folder: Path, batches: int) -> None:
    """Whatever happens between batches, every published value is within its bound after each of them."""
    drift, random, workers = Drift(seed), Random(seed + 1), Absent(seed)
    with LocalLog(folder / "log") as log:
        log.append(drift.beginning())

        def host() -> SparkHost:
            return SparkHost(folder / "log", folder / "host", workers, shards=random.randint(1, 3), snapshot_rows=8)

        spark = host()
        try:
            for _ in range(batches):
                log.append([drift.more()])
                assert spark.batch()
                exact(spark, log)
                happens = random.random()
                if happens < 0.1:
                    spark.reshard(random.randint(1, 3))
                elif happens < 0.25:
                    owners = list(spark.sharding.owners)
                    random.shuffle(owners)
                    spark._shardings.add(Sharding(spark.sharding.epoch + 1, spark.position, tuple(owners)))
                if random.random() < 0.25:
                    spark._stand(snapshot=False)
                if random.random() < 0.2:
                    spark.keep_snapshots()
                if random.random() < 0.15:
                    spark.close()
                    spark = host()
        finally:
            spark.close()
