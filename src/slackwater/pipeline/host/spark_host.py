"""The Spark host: standing queries on executors, their notifications published batch by batch.

Design
    The driver looks how far the log reaches, writes down where the next batch ends, has every shard brought there by a
    task of one job, joins what they say, and publishes it (`hosting.publication_log`). Only then does the batch count.
    Whatever dies before that, the batch is done again with the same cut and gives the same bytes; whatever dies after,
    it is done. No row goes through the driver: shards read the log themselves.

    A shard's task asks for the executor that has the shard. An executor that is gone is replaced by another, whose
    worker takes the shard's snapshot and catches up.

    Why a loop of its own and not a Structured Streaming query: `docs/spark-host.md` has the figures.
"""

import logging
import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from slackwater.core.backoff import Backoff
from slackwater.core.errors import LogError, SlackwaterError, StoreError
from slackwater.core.types import Position
from slackwater.hosting.publication import Publication, PublishedStep, decode_steps, merged_steps
from slackwater.hosting.publication_log import Cut, PublicationWriter
from slackwater.hosting.step import Step
from slackwater.log.address import on_a_bus
from slackwater.log.extent import LogExtent, PlaceRelation
from slackwater.pipeline.host.host_place import HostPlace
from slackwater.pipeline.host.join_cuts import CutRule, recut
from slackwater.pipeline.host.shard_assignment import Sharding, Shardings, balanced, check_operators, since
from slackwater.pipeline.host.shards import ShardReport, ShardTask, snapshots_of
from slackwater.pipeline.tables.stream import gist
from slackwater.processing.base import Notifications, Values

_report = logging.getLogger("slackwater.pipeline")

MAX_ROWS = 65_536
"""Positions of a batch at most."""
SNAPSHOT_ROWS, SNAPSHOT_BATCHES = 250_000, 500
"""So much of the log lies between two snapshots of the shards, at least."""
SNAPSHOT_SHARE = 0.05
"""So much of the time may go into snapshots; with many queries they are taken less often."""
IDLE_SECONDS = 0.005
"""How often an idle host looks at the log."""
PATIENCE_SECONDS = 60.0
"""A log that cannot be read for longer ends the host: while it is restored from a copy, it cannot."""
AWAY_SECONDS = 0.5
"""How often a host looks at a log that could not be read."""
WARM_SECONDS = 20.0
"""Spark ends a Python worker that had nothing to do for a minute; so it is given something."""
HOST_SETTINGS = {"spark.executor.cores": "1", "spark.locality.wait": "500ms"}
"""One core an executor: with more, tasks would go to any of several workers, and shards would move all the time. A
shard whose executor is busy waits this long for it: less than catching up takes."""
TRIES = 5
_BACKOFF = Backoff(first=0.2, most=1.6, jitter=0)
USUAL_SPREADING = CutRule()
"""How joins are spread by default."""
SKEW_BATCHES, SKEW, SKEW_SECONDS = 30, 1.5, 0.005
"""A shard that took so many times the time of another, and so much longer, over so many batches gives queries away."""


@dataclass(frozen=True, slots=True)
class HostProgress:
    """Progress of a batch: so many positions up to `position`, in so many seconds; rows of the log that shards took in.

    `shard_seconds` is what the slowest shard needed, `work_seconds` what all of them did. `met` are rows that joins had
    to look at, as they were and as they are; `sent` is how often they were given to a shard, all shards together.
    """

    position: int
    rows: int
    seconds: float
    notifications: int
    own_rows: int
    caught_up_rows: int
    restored: int
    shard_seconds: float
    work_seconds: float
    met: int
    sent: int


class ShardRunner(Protocol):
    """Runs a task for some shards, somewhere."""

    @property
    def width(self) -> int:
        """How many shards there should be."""
        ...

    def __call__(self, task: ShardTask, shards: list[int]) -> list[ShardReport]:
        """Run it; whatever fails is raised."""
        ...


class _CutReplaced(Exception):
    """The log does not hold the end of the batch under way any more."""


class SparkHost:
    """Keeps the queries that are Spark's; one at a time for a folder. Use it in a with statement."""

    def __init__(
        self,
        log: Path | str,
        folder: Path | str,
        run: ShardRunner,
        *,
        shards: int | None = None,
        max_rows: int = MAX_ROWS,
        snapshot_rows: int = SNAPSHOT_ROWS,
        spreading: CutRule = USUAL_SPREADING,
        progress: Callable[[HostProgress], None] | None = None,
    ) -> None:
        check_operators()
        self._log = str(log) if on_a_bus(log) else str(Path(log).absolute())
        self._folder = Path(folder).absolute()
        self._runner = run
        self._max_rows, self._snapshot_rows = max_rows, snapshot_rows
        self._spreading = spreading
        self._progress = progress
        self._wanted = shards or run.width
        self._warm = time.monotonic()
        self._publications = PublicationWriter(self._folder)
        self._place = HostPlace(self._log, self._publications)
        try:
            self._place.check_start()
            self._begin()
            self._is_held(self._place.extent())
        except BaseException:
            self._publications.release()
            raise

    def _begin(self) -> None:
        """Take up the publication log where it stands."""
        self._shardings = Shardings(self._folder)
        if not self._shardings.all:
            self._shardings.add(Sharding.even(0, self.position, self._wanted))
        self._snapshot_at, self._snapshot_when, self._snapshot_cost = self.position, time.monotonic(), 0.0
        self._batches = 0
        self._seconds: deque[list[float]] = deque(maxlen=SKEW_BATCHES)
        self._weights: dict[int, float] = {}
        self._joins, self._surveyed_before = 0, self._spreading.every

    @property
    def position(self) -> int:
        """Everything before it has been applied and its notifications are published."""
        return self._publications.replica.position

    @property
    def generation(self) -> int:
        """How many hosts of this folder there have been."""
        return self._publications.generation

    @property
    def sharding(self) -> Sharding:
        """The sharding in force."""
        return self._shardings.all[-1]

    def run(self, stopping: Callable[[], bool]) -> None:
        """Follow the log until stopped."""
        away: float | None = None
        while not stopping():
            try:
                if self.batch():
                    continue
                if time.monotonic() - self._warm > WARM_SECONDS:
                    self._stand(snapshot=False)
                away = None
            except LogError as error:
                now = time.monotonic()
                if away is None:
                    _report.warning("the log cannot be read for now: %s", error)
                away = now if away is None else away
                if now - away > PATIENCE_SECONDS:
                    raise
                time.sleep(AWAY_SECONDS)
            time.sleep(IDLE_SECONDS)

    def batch(self) -> bool:
        """Take in what is there, up to the most that a batch may have; False where there is nothing."""
        extent = self._place.extent()
        cut = self._cut(extent) if self._is_held(extent) else None
        if cut is None or cut.end <= self.position:
            return False
        began = time.perf_counter()
        snapshot = self._snapshot_due(cut.end)
        self._publications.begin(cut)
        try:
            reports = self._run(cut, snapshot=snapshot, survey=self._survey_due())
        except _CutReplaced:
            # Whether to begin anew is seen when the log is looked at next.
            self._publications.abandon()
            return True
        steps = self._steps(reports)
        start, end = Position(cut.start), Position(cut.end)
        self._publications.publish(Publication(self.generation, start, end, steps, cut.incarnation))
        self._batches += 1
        if snapshot:
            self._snapshot_taken(reports)
        self._note(reports)
        self._spread(reports)
        if self._progress is not None:
            self._progress(
                HostProgress(
                    cut.end,
                    cut.end - cut.start,
                    time.perf_counter() - began,
                    sum(len(published.step.notifications) for published in steps),
                    sum(one.own_rows for one in reports),
                    sum(one.caught_up_rows for one in reports),
                    sum(one.restored for one in reports),
                    max(one.seconds for one in reports),
                    sum(one.seconds for one in reports),
                    max(one.met for one in reports),
                    sum(one.had for one in reports),
                )
            )
        return True

    def keep_snapshots(self) -> None:
        """Have all shards write down where they are, so that the next host need not catch up."""
        if self._snapshot_at < self.position and self._publications.begun() is None:
            reports = self._stand(snapshot=True)
            if reports:
                self._snapshot_taken(reports)

    def _stand(self, *, snapshot: bool) -> list[ShardReport]:
        """A batch without positions, under the sharding of the last published one: another is not in force yet."""
        epoch = since(self._shardings.all, self.position)[0].epoch
        cut = Cut(self.position, self.position, epoch, self._publications.replica.incarnation)
        self._warm = time.monotonic()
        # Where the log is replaced, or was and no writer has opened it since, there is nothing to stand on.
        with suppress(_CutReplaced):
            if self._place.extent().relation(cut.place) is PlaceRelation.HELD:
                return self._run(cut, snapshot=snapshot)
        return []

    def reshard(self, shards: int) -> None:
        """Spread the queries evenly over so many shards, from the next batch on."""
        self._wanted = shards

    def close(self) -> None:
        """Let another host in."""
        self._publications.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.keep_snapshots()
        finally:
            self.close()

    # ---- histories of the log

    def _is_held(self, extent: LogExtent) -> bool:
        """True if the log holds what was published; if another history has taken its place, begin anew."""
        relation = self._place.relation(extent)
        if relation is PlaceRelation.FOREIGN:
            self._place.begin_anew()
            self._begin()
        return relation is not PlaceRelation.AHEAD

    def _cut(self, extent: LogExtent) -> Cut | None:
        """The next batch; None while the log does not show the end of the one that was begun."""
        # What was begun is done as it was begun.
        cut = self._publications.begun()
        if cut is not None:
            relation = extent.relation(cut.place)
            if relation is not PlaceRelation.FOREIGN:
                return cut if relation is PlaceRelation.HELD else None
            self._publications.abandon()
        if self.sharding.shards != self._wanted:
            self._shardings.add(Sharding.even(self.sharding.epoch + 1, self.position, self._wanted))
        end = Position(min(extent.end, self.position + self._max_rows))
        return Cut(self.position, end, self.sharding.epoch, extent.place(end).incarnation)

    # ---- the job

    def _run(self, cut: Cut, *, snapshot: bool, survey: bool = False) -> list[ShardReport]:
        """One task for each shard; again if it fails, because what failed may have been a machine."""
        self._warm = time.monotonic()
        shardings = [one for one in self._shardings.all if one.epoch <= cut.sharding]
        counted = tuple(since(shardings, self._oldest_needed()))
        editions = self._publications.editions
        task = ShardTask(
            self._log, str(self._folder), cut.start, cut.end, counted, cut.incarnation, editions, snapshot, survey
        )
        numbers = list(range(shardings[-1].shards))
        for attempt in range(1, TRIES + 1):
            try:
                return sorted(self._runner(task, numbers), key=lambda one: one.shard)
            except Exception as error:
                if self._place.extent().relation(cut.place) is not PlaceRelation.HELD:
                    raise _CutReplaced from error
                sentence = gist(str(error))
                if attempt == TRIES:
                    raise StoreError(
                        f"the Spark host stopped at position {self.position}: {sentence}; everything published is "
                        f"kept, start it again to go on"
                    ) from error
                _report.warning("a batch failed and is tried again: %s", sentence)
                time.sleep(_BACKOFF.delay(attempt, random.random))
        raise AssertionError("unreachable")

    def _steps(self, reports: list[ShardReport]) -> tuple[PublishedStep, ...]:
        first, *rest = merged_steps([decode_steps(one.steps) for one in reports])
        news = self._news(first.step.notifications)
        return tuple(rest) if news is None else (PublishedStep(Step(news)), *rest)

    def _news(self, published: Notifications) -> Notifications | None:
        """A shard's values of queries that it was given, without those known already."""
        values = published.values
        if values is None:
            return None
        known = [self._publications.replica.value(number) for number in values.queries.tolist()]
        present = [value if there else None for value, there in zip(values.values.tolist(), values.there, strict=True)]
        new = [nth for nth, (a, b) in enumerate(zip(known, present, strict=True)) if a != b]
        return Notifications(published.position, Values(values.queries[new], values.values[new], values.there[new]))

    # ---- snapshots

    def _snapshot_due(self, end: int) -> bool:
        if time.monotonic() - self._snapshot_when < self._snapshot_cost / SNAPSHOT_SHARE:
            return False
        return end - self._snapshot_at >= self._snapshot_rows or self._batches >= SNAPSHOT_BATCHES

    def _snapshot_taken(self, reports: list[ShardReport]) -> None:
        began = time.monotonic()
        try:
            self._publications.write_snapshot()
            oldest = self._oldest_needed()
            self._publications.forget_before(oldest)
            self._shardings.forget_before(oldest)
        except SlackwaterError as error:
            # The publication log is complete without it: a full disk must not end the service.
            _report.error("%s", error)
        self._snapshot_at, self._snapshot_when, self._batches = self.position, time.monotonic(), 0
        self._snapshot_cost = max(one.snapshot_seconds for one in reports) + self._snapshot_when - began

    def _oldest_needed(self) -> int:
        """Where the oldest snapshot of any shard stands: from there on everything is needed."""
        oldest = [snapshots_of(self._folder, shard).oldest() for shard in range(self.sharding.shards)]
        return min((0 if one is None else int(one) for one in oldest), default=0)

    # ---- skew

    def _note(self, reports: list[ShardReport]) -> None:
        for one in reports:
            if one.weights:
                self._weights = {
                    bucket: weight
                    for bucket, weight in self._weights.items()
                    if self.sharding.owners[bucket] != one.shard
                } | {bucket: float(weight) for bucket, weight in one.weights.items()}
        if len(reports) < 2 or any(one.caught_up_rows for one in reports):
            return
        if self._seconds and len(self._seconds[-1]) != len(reports):
            self._seconds.clear()
        self._seconds.append([one.seconds for one in reports])
        if len(self._seconds) < SKEW_BATCHES:
            return
        # The middle one of many batches: one that was held up by something else counts for nothing.
        usual = [sorted(column)[SKEW_BATCHES // 2] for column in zip(*self._seconds, strict=True)]
        if max(usual) < SKEW * min(usual) or max(usual) - min(usual) < SKEW_SECONDS:
            return
        self._seconds.clear()
        moved = balanced(self.sharding, usual, self._weights, self.position)
        if moved is not None:
            _report.info("shards took %s s; queries are moved", ", ".join(f"{one:.4f}" for one in usual))
            self._shardings.add(moved)

    # ---- joins

    def _survey_due(self) -> bool:
        if self.sharding.shards < 2 or self._spreading.most_reach < 0 or not self._joins:
            return False
        return self._surveyed_before >= self._spreading.every

    def _spread(self, reports: list[ShardReport]) -> None:
        """Cut the lines of joins where a survey shows that it pays."""
        self._joins = sum(one.joins for one in reports)
        self._surveyed_before += 1
        surveyed = [one for report in reports for one in report.surveyed]
        if not surveyed:
            return
        self._surveyed_before = 0
        lines = recut(self.sharding.lines, surveyed, self.sharding.shards, self._spreading)
        if lines != self.sharding.lines:
            _report.info("joins are spread by rows on %d of %d lines", len(lines), len(surveyed))
            self._shardings.add(self.sharding.with_lines(lines, self.position))
