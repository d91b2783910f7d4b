"""Spark test helpers: worker processes, and batches run to the end of a log."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from slackwater.core import Position
from slackwater.core.query import AnswerShape
from slackwater.hosting.engine import QueryEngine
from slackwater.hosting.publication import Publication, as_bytes
from slackwater.hosting.publication_log import PublicationReader, read_publication
from slackwater.hosting.replica import Replica
from slackwater.hosting.step import Step
from slackwater.kinds.registry import answer_table
from slackwater.log import LocalLog
from slackwater.pipeline.host.join_cuts import CutRule
from slackwater.pipeline.host.shards import Shard, ShardReport, ShardTask
from slackwater.pipeline.host.spark_host import USUAL_SPREADING, ShardRunner, SparkHost
from slackwater.processing.columns import python_rows
from tests.support.histories import History


class Workers:
    """A few workers in this process, any of which may get any shard, and any of which may die."""

    def __init__(self, seed: int, workers: int = 3, deaths: float = 0.0, width: int = 2) -> None:
        self._random = Random(seed)
        self._live: list[dict[tuple[str, int], Shard]] = [{} for _ in range(workers)]
        self._deaths = deaths
        self.width = width

    def __call__(self, task: ShardTask, shards: list[int]) -> list[ShardReport]:
        told = []
        for shard in shards:
            for _ in range(10):
                worker = self._random.choice(self._live)
                if self._random.random() < self._deaths:
                    worker.clear()
                report = task.on(worker, shard)
                if self._random.random() >= self._deaths:
                    break
                # The answer is lost: Spark runs the task again, somewhere.
            told.append(report)
        return told


Columns = list[tuple[object, ...]]


def columns(step: Step) -> tuple[int, Columns]:
    """Notifications of a step, as the bytes of its columns."""
    published = step.notifications
    made: Columns = []
    if published.values is not None:
        made.append(
            (published.values.queries.tobytes(), published.values.values.tobytes(), published.values.there.tobytes())
        )
    for rows in published.rows:
        assert rows.slots is not None
        parts = (rows.queries, rows.places, rows.kinds, rows.slots)
        made.append((rows.table, *(part.tobytes() for part in parts), as_bytes(rows.rows)))
    return int(step.position), made


def everything(one: object) -> bool:
    return True


class Twin:
    """One engine that keeps everything, as a node does, cut as the host cuts."""

    def __init__(self, log: LocalLog) -> None:
        self.engine = QueryEngine(everything)
        self._log = log

    def batch(self, end: int) -> list[tuple[int, Columns]]:
        return [columns(step) for step in self.engine.steps(self._log.read(self.engine.position, Position(end)))]


def published(folder: Path, start: int) -> Publication:
    found = read_publication(folder, start)
    assert found is not None
    return found


def compare(replica: Replica, engine: QueryEngine) -> None:
    """Assert that the host published exactly the engine's notifications."""
    assert {*replica.registrations} == {*engine.registrations}
    assert replica.position == engine.position
    for number in replica.registrations:
        ours, theirs = replica.answer(number), engine.host.answer(number)
        assert ours.value == theirs.value
        assert (ours.rows is None) == (theirs.rows is None)
        query = replica.queries[number]
        if query.shape is AnswerShape.ROWS:
            # Columns that are not shown are not published either.
            names = [*dict.fromkeys((*replica.schema(answer_table(query)).key, *query.columns))]
            assert ours.rows is not None
            assert theirs.rows is not None
            rows = [python_rows(one.select(names)) for one in (ours.rows, theirs.rows)]
            assert sorted(map(repr, rows[0])) == sorted(map(repr, rows[1]))


def run(
    seed: int,
    folder: Path,
    run: ShardRunner,
    batches: int = 10,
    restarts: float = 0.0,
    rows: int = 60,
    history: History | None = None,
    shards: int = 2,
    spreading: CutRule = USUAL_SPREADING,
    look: Callable[[SparkHost, QueryEngine], None] | None = None,
) -> None:
    """One history through a node's engine and through the host, batch by batch; the caller inspects each."""
    history, random = History(seed) if history is None else history, Random(seed + 1)
    with LocalLog(folder / "log") as log:
        log.append(history.beginning())
        twin = Twin(log)

        def host() -> SparkHost:
            return SparkHost(
                folder / "log", folder / "host", run, shards=shards, snapshot_rows=rows, spreading=spreading
            )

        spark = host()
        try:
            for _ in range(batches):
                log.append(history.more(random.randint(1, 12)))
                before = spark.position
                assert spark.batch()
                publication = published(folder / "host", before)
                assert [columns(published.step) for published in publication.steps] == twin.batch(int(log.end))
                if look is not None:
                    look(spark, twin.engine)
                if random.random() < restarts:
                    if random.random() < 0.5:
                        spark.keep_snapshots()
                    spark.close()
                    spark = host()
            reader = PublicationReader(folder / "host")
            reader.catch_up()
            compare(reader.replica, twin.engine)
        finally:
            spark.close()
