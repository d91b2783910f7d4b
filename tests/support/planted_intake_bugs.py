"""Mutations of the intake: planted bugs, each in a few lines, that measure the power of the world's invariants."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import pyarrow as pa
import pyarrow.compute as pc

from simulation.intake_world import IntakeSetting, SimulatedIntake
from slackwater.admission import Admission, Seen
from slackwater.admission.deduplication import Flags, Integers
from slackwater.core.arrival import Arrival, RequestKey
from slackwater.core.arrow import EVENT_TIME
from slackwater.core.lineage import Place
from slackwater.core.schema import TableSchema
from slackwater.core.types import Instant
from slackwater.hosting.log_clock import LogClock
from slackwater.intake import IntakeReceipt
from slackwater.intake.memory import IntakeMemory
from slackwater.intake.request_keys import RequestKeys
from slackwater.log import Entry, Quarantined, Updates


@dataclass(frozen=True)
class Planted:
    """A world in which everything is right but one thing."""

    name: str
    intake: type[SimulatedIntake]
    begin: int = 0
    """The seed to begin with, for bugs that few worlds show; all others are tried after it."""

    @property
    def setting(self) -> IntakeSetting:
        return IntakeSetting(self.intake)


class ClockFromEventTime(SimulatedIntake):
    """The log clock is not before the event times that are in the log."""

    def _clock_after(self, clock: LogClock, record: Updates | Quarantined) -> LogClock:
        clock = super()._clock_after(clock, record)
        if isinstance(record, Quarantined):
            return clock
        return clock.stamped(Instant(pc.max(record.batch.column(EVENT_TIME).cast(pa.int64())).as_py()))


class ClockFromTheWall(SimulatedIntake):
    """Rows are admitted by the wall clock, also where it was set back."""

    def _stamp(self, clock: LogClock, wall: Instant) -> Instant:
        return wall


class ClockForgotten(SimulatedIntake):
    """After a restart the log clock is the wall clock's."""

    def _recall(self, entry: Entry) -> None:
        before = self._memory.log_clock
        super()._recall(entry)
        self._memory.log_clock = before

    def _read_memory(self) -> IntakeMemory:
        memory = super()._read_memory()
        memory.log_clock = LogClock()
        return memory


class _NothingOutside(Seen):
    def outside(self, sequences: Integers) -> Flags:
        return super().outside(sequences) & False


class RepeatDroppedWithoutAWord(SimulatedIntake):
    """A number below the floor counts as a repeat."""

    def _admit(self, arrival: Arrival, table: TableSchema, seen: Seen, now: Instant) -> Admission:
        silent = _NothingOutside(*(getattr(seen, one.name) for one in fields(seen)))
        return super()._admit(arrival, table, silent, now)


class AnyMemoryAccepted(SimulatedIntake):
    """A memory is taken for the log's, whatever history it is of."""

    def _holds(self, place: Place) -> bool:
        return True


class OldIncarnationAccepted(SimulatedIntake):
    """A memory is taken for the log's if the log is long enough: the end of its incarnation is not looked at."""

    def _holds(self, place: Place) -> bool:
        return place.position <= self._log.end


class KeysForgotten(SimulatedIntake):
    """Idempotency keys are not read back from the log."""

    def _recall(self, entry: Entry) -> None:
        keys = {origin: known.plain() for origin, known in self._memory.requests.items()}
        super()._recall(entry)
        self._memory.requests = {
            origin: known for origin, known in self._memory.requests.items() if known.plain() == keys.get(origin)
        }


class KeysIgnored(SimulatedIntake):
    """A request under a key is taken each time it comes."""

    def take(self, arrivals: Sequence[Arrival], request: RequestKey | None = None) -> IntakeReceipt:
        return super().take(arrivals)


class _AskedFirst(RequestKeys):
    """Keys of which old ones count as used until they are forgotten."""

    def is_taken(self, request: RequestKey, now: Instant) -> bool:
        return super().is_taken(request, Instant(0))


class OldKeyAsked(SimulatedIntake):
    """A key counts as used although it is out of its window."""

    def _keys(self, named: Sequence[tuple[TableSchema, Arrival]]) -> RequestKeys:
        return _AskedFirst(super()._keys(named).plain())

    def _purge_keys(self) -> None:
        pass


PLANTED = (
    Planted("the log clock follows event times", ClockFromEventTime),
    Planted("the log clock follows the wall clock back", ClockFromTheWall),
    Planted("the log clock is forgotten by a restart", ClockForgotten),
    Planted("a number outside the window is dropped without a word", RepeatDroppedWithoutAWord),
    Planted("a memory of another history is accepted", AnyMemoryAccepted),
    Planted("the end of a memory's incarnation is not checked", OldIncarnationAccepted, 121),
    Planted("idempotency keys are forgotten by a restart", KeysForgotten),
    Planted("idempotency keys are ignored", KeysIgnored),
    Planted("an old key is asked before it expires", OldKeyAsked),
)
