"""Shard: live operators in a Python worker of an executor, brought to the end of a batch by a task.

Design
    A worker keeps the shards that it has seen, with their positions. A task names a shard and a batch; the shard reads
    the batch from the log by itself, so nothing but its name goes there and nothing but its notifications comes back.
    Where the worker does not have the shard, or not at this position, it takes the latest snapshot and catches up
    from there, *with the cuts of the batches as they were published*: a bound is measured against the published value,
    and that depends on the cuts. Where there is no such snapshot, the shard is made *anew*, from the rows of any other
    one or of the whole log, and publishes all its values again.

    A task may be run twice, because its answer was lost. A shard that stands at the end of the batch already
    publishes the same again.

    The log may be replaced while a shard reads it, for example by a copy. So a shard looks at the log once more when it
    has read, and fails unless the log holds the place where the batch ends. What a worker or a snapshot keeps counts
    only under the editions of the publication log (`hosting.publication_log`).

    Spark's workers collect garbage after every task. What a shard keeps is a hundred thousand objects that stay, so
    they are taken out of the collector's sight.
"""

import gc
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from slackwater import extensions
from slackwater.core.errors import SlackwaterError, StoreError
from slackwater.core.lineage import FORMER, Lineage, Place
from slackwater.core.types import Position
from slackwater.hosting.engine import QueryEngine
from slackwater.hosting.publication import PublishedStep, encode_steps
from slackwater.hosting.publication_log import batch_starts
from slackwater.hosting.snapshots import NodeSnapshot, SnapshotFolder
from slackwater.hosting.step import Registration, Step
from slackwater.log.address import shown
from slackwater.log.extent import LogExtent, PlaceRelation
from slackwater.pipeline.host.shard_assignment import BUCKETS, Sharding, beginning_at
from slackwater.pipeline.source import opened
from slackwater.processing.base import Notifications
from slackwater.processing.concatenate import as_values
from slackwater.processing.joined import LineSample

_NONE = -1
"""The epoch of a shard that keeps nothing yet."""
_SETTLED = 1_000
"""So many more registrations are worth a full collection."""


class ShardReport(msgspec.Struct, frozen=True, array_like=True):
    """Report of a shard: its steps and the amount of work. Rows are those of the log."""

    shard: int
    steps: bytes
    seconds: float
    own_rows: int
    caught_up_rows: int
    restored: bool
    snapshot_seconds: float
    process: int
    queries: int
    weights: dict[int, int]
    """How many items the queries of each bucket have, together; told when it has changed. Joins that are spread by
    their rows weigh nothing."""
    joins: int = 0
    met: int = 0
    had: int = 0
    """Rows that joins had to look at, as they were and as they are; and those of them that this shard has."""
    surveyed: tuple[LineSample, ...] = ()


@dataclass(frozen=True)
class ShardTask:
    """Brings shards to the end of a batch; a value, so that Spark can send it to executors.

    `incarnation` is that of the log at the end of the batch.
    """

    log: str
    folder: str
    start: int
    end: int
    shardings: tuple[Sharding, ...]
    incarnation: int = FORMER
    editions: Lineage = Lineage()  # noqa: RUF009  an immutable value
    snapshot: bool = False
    survey: bool = False
    extensions: tuple[str, ...] = field(default_factory=extensions.loaded)

    def __call__(self, shards: Iterable[int]) -> Iterator[bytes]:
        """Bring each shard there; return its report, as bytes."""
        extensions.load(self.extensions)
        for shard in shards:
            yield msgspec.msgpack.encode(self.on(_live, shard))

    def check_history(self) -> None:
        """Refuse what was read if the log does not hold the place where the batch ends."""
        place = Place(self.incarnation, Position(self.end))
        if LogExtent.of(opened(self.log)).relation(place) is not PlaceRelation.HELD:
            raise StoreError(f"the log at {shown(self.log)} was replaced while positions up to {self.end} were read")

    def counts(self, edition: int, position: Position) -> bool:
        """True if a state of this edition belongs to the publication log."""
        return position == 0 or self.editions.holds(Place(edition, position))

    def on(self, live: "dict[tuple[str, int], Shard]", number: int) -> ShardReport:
        """Bring one there, in a worker that keeps these."""
        known = live.get((self.folder, number))
        if known is None:
            known = live[self.folder, number] = Shard(Path(self.folder), number)
        return known.batch(self)


def snapshots_of(folder: Path, shard: int) -> SnapshotFolder:
    """Where a shard's snapshots are."""
    return SnapshotFolder(folder / "shards" / str(shard))


class Shard:
    """One of the shards of a host, as far as this process has it."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self._number = number
        self._engine: QueryEngine | None = None
        self._epoch = -1
        self._edition = FORMER
        self._last: tuple[tuple[int, ...], ShardReport] | None = None
        self._settled = 0

    def batch(self, task: ShardTask) -> ShardReport:
        """Bring it to the end of a batch, and return its notifications.

        The first of the steps is at the start of the batch, for what the shard has to say for having been given other
        queries; mostly that is nothing. A batch without positions only keeps the worker warm, or is for a snapshot:
        nothing of it is heard, so nothing that has to be said may come of it.
        """
        which = (task.start, task.end, task.shardings[-1].epoch, task.incarnation, task.editions.current)
        if self._last is None or self._last[0] != which:
            # Much of what is made in a batch stays: looking for garbage in it in between finds none.
            gc.disable()
            try:
                self._last = (which, self._idle(task) if task.start == task.end else self._batch(task))
            except BaseException:
                # Half of a batch is no state to go on from.
                self._engine = self._last = None
                raise
            finally:
                gc.enable()
        began = time.perf_counter()
        if task.snapshot:
            self._write_snapshot(task.end)
        return msgspec.structs.replace(
            self._last[1], snapshot_seconds=time.perf_counter() - began, surveyed=self._surveyed(task)
        )

    def _idle(self, task: ShardTask) -> ShardReport:
        engine = self._engine if self._usable(task) else self._own(task)
        self._engine = engine
        begun = task.start if engine is None else int(engine.position)
        if engine is not None:
            self._catch_up(engine, task)
            task.check_history()
            self._edition = task.editions.current
        empty = encode_steps([PublishedStep(Step(Notifications(Position(task.start))))])
        count = 0 if engine is None else len(engine.host.queries)
        return ShardReport(self._number, empty, 0.0, 0, task.start - begun, False, 0.0, os.getpid(), count, {})

    def _batch(self, task: ShardTask) -> ShardReport:
        began = time.perf_counter()
        restored = not self._usable(task)
        engine = self._engine
        if engine is None or restored:
            engine = self._engine = self._own(task) or self._anew(task)
        begun, anew = int(engine.position), self._epoch == _NONE
        self._catch_up(engine, task)
        spread = self._epoch != task.shardings[-1].epoch
        steps = [self._shared(engine, task.shardings[-1])]
        before = engine.host.counters()
        steps += self._steps(engine, task, task.start, task.end)
        task.check_history()
        self._edition = task.editions.current
        changed = restored or spread or any(one.step.registered or one.step.unregistered for one in steps)
        encoded = encode_steps(steps)
        seconds = time.perf_counter() - began
        if anew:
            # Its output now depends on when it was made anew: no shard may go back to before that.
            self._write_snapshot(task.end)
        self._settle(engine)
        after = engine.host.counters()
        return ShardReport(
            self._number,
            encoded,
            seconds,
            task.end - task.start,
            task.start - begun,
            restored,
            0.0,
            os.getpid(),
            len(engine.host.queries),
            self._weights(engine) if changed else {},
            after.get("joins", 0),
            after.get("met", 0) - before.get("met", 0),
            after.get("had", 0) - before.get("had", 0),
        )

    def _surveyed(self, task: ShardTask) -> tuple[LineSample, ...]:
        """One of the shards is enough: all of them have all rows, and know of all joins."""
        if not task.survey or self._number or self._engine is None:
            return ()
        return tuple(self._engine.survey(task.shardings[-1].shards))

    def _write_snapshot(self, position: int) -> None:
        if self._engine is not None and self._engine.position == position:
            state = msgspec.msgpack.encode((self._epoch, self._engine.snapshot(), self._edition))
            snapshots_of(self._folder, self._number).write(NodeSnapshot(self._engine.position, state))

    # ---- getting there

    def _usable(self, task: ShardTask) -> bool:
        """Whether the published cuts suffice to bring this worker's state to the batch."""
        if self._engine is None or self._engine.position > task.start:
            return False
        if not task.counts(self._edition, self._engine.position):
            return False
        return self._engine.position == task.start or self._engine.position in batch_starts(self._folder)

    def _own(self, task: ShardTask) -> QueryEngine | None:
        """This shard as of an earlier publication, if all later ones are known."""
        starts = batch_starts(self._folder)
        for snapshot in snapshots_of(self._folder, self._number).read(Position(0), Position(task.start)):
            engine = _restored(snapshot, task, self._number)
            if engine is not None and (engine[0].position == task.start or engine[0].position in starts):
                self._epoch = engine[1]
                return engine[0]
        if task.shardings[0].epoch == 0 and ((starts and starts[0] == 0) or task.start == 0):
            self._epoch = task.shardings[0].epoch
            return QueryEngine(task.shardings[0].keeps(self._number), task.shardings[0].part(self._number))
        return None

    def _anew(self, task: ShardTask) -> QueryEngine:
        """The rows of any shard, or those of the log from its beginning, and none of the queries."""
        self._epoch = _NONE
        for number in range(max(one.shards for one in task.shardings)):
            for snapshot in snapshots_of(self._folder, number).read(Position(0), Position(task.start)):
                restored = _restored(snapshot, task, number)
                if restored is not None:
                    restored[0].share(_nothing)
                    return restored[0]
        first = opened(task.log).start
        if first > 0:
            raise StoreError(
                f"the log at {shown(task.log)} begins at {first} and no snapshot in {self._folder} can be used"
            )
        return QueryEngine(_nothing)

    def _catch_up(self, engine: QueryEngine, task: ShardTask) -> None:
        """Bring it to the start of the batch, by the published cuts; without queries the cuts do not matter."""
        begun = int(engine.position)
        if begun == task.start:
            return
        cuts = [begun, *(start for start in batch_starts(self._folder) if begun < start < task.start)]
        for start, end in zip(cuts, [*cuts[1:], task.start], strict=True):
            if self._epoch != _NONE:
                self._shared(engine, beginning_at(task.shardings, start))
            for _ in self._steps(engine, task, start, end):
                pass

    def _shared(self, engine: QueryEngine, sharding: Sharding) -> PublishedStep:
        """Take on the queries that a sharding gives to this shard, and return their values."""
        answers = (
            []
            if self._epoch == sharding.epoch
            else engine.share(sharding.keeps(self._number), sharding.part(self._number))
        )
        self._epoch = sharding.epoch
        return PublishedStep(Step(Notifications(engine.position, as_values(answers))))

    def _steps(self, engine: QueryEngine, task: ShardTask, start: int, end: int) -> Iterator[PublishedStep]:
        for step in engine.steps(opened(task.log).read(Position(start), Position(end))):
            answers = tuple(engine.host.answer(one.number) for one, _ in step.registered)
            yield PublishedStep(step, answers)

    # ---- around it

    def _weights(self, engine: QueryEngine) -> dict[int, int]:
        weights: dict[int, int] = {}
        engine.host.settle()
        for number in engine.host.queries:
            weights[number % BUCKETS] = weights.get(number % BUCKETS, 0) + engine.host.weight(number)
        return weights

    def _settle(self, engine: QueryEngine) -> None:
        count = len(engine.registrations)
        if abs(count - self._settled) >= _SETTLED:
            self._settled = count
            gc.collect()
            gc.freeze()


def _restored(snapshot: NodeSnapshot, task: ShardTask, number: int) -> tuple[QueryEngine, int] | None:
    """The engine that a snapshot of a shard was taken of, and under which sharding; None where it cannot be used."""
    try:
        # Snapshots from before there were editions have two parts.
        epoch, state, edition = (*msgspec.msgpack.decode(snapshot.state), FORMER)[:3]
        if not task.counts(edition, snapshot.position):
            return None
        sharding = next(one for one in task.shardings if one.epoch == epoch)
        engine = QueryEngine(sharding.keeps(number), sharding.part(number))
        engine.restore(state)
        if engine.host.rebuilt:
            # Its values now are measured against other values than those that were published.
            return None
    except (SlackwaterError, msgspec.MsgspecError, ValueError, KeyError, TypeError, StopIteration):
        return None
    return engine, epoch


def _nothing(one: Registration) -> bool:
    return False


_live: dict[tuple[str, int], Shard] = {}
"""The shards of this worker."""
