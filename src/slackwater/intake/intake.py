"""Intake: source → admission → log, with durable deduplication state.

Every way in (a replayed file, a poller, a request to a server) hands its arrivals to an `Intake`, so that the same
checks hold everywhere. What was accepted and what was refused are appended together; only then does the intake
remember the rows as taken. A crash in between loses the memory and not the rows: the memory is rebuilt from the
log when it is opened, so a sender that repeats what was not acknowledged repeats nothing.

Rows are admitted by the log clock (`hosting.log_clock`), which stands in the log with them. So rows that bring no event
time are ordered as they came, whatever the wall clock does meanwhile.

A request under an idempotency key is taken once. The key stands in the record of its accepted rows, because a crash may
keep some records of an append without the later ones: what was refused comes before, and may then be refused twice.

The memory is saved beside the log now and then (`memory` names the file), so that opening a long log reads only
what came after. Where retention has dropped rows that no saved memory covers, repeats of those cannot be told any
more; `blind_before` says up to which position. A memory of a history that is not the log's is put aside.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.admission import Admission, Limits, Reason, RunAdmission, Seen, admit, admit_run
from slackwater.admission.identity import of_former
from slackwater.core import disk
from slackwater.core.arrival import Arrival, RequestKey
from slackwater.core.arrow import EVENT_TIME, SEQUENCE, SOURCE
from slackwater.core.clock import Clock
from slackwater.core.errors import SchemaError
from slackwater.core.lineage import Place
from slackwater.core.schema import TableSchema
from slackwater.core.types import Instant, Position
from slackwater.hosting.log_clock import LogClock
from slackwater.intake.memory import IntakeMemory, Origin, load, store
from slackwater.intake.receipt import IntakeReceipt, Promises
from slackwater.intake.request_keys import RequestKeys
from slackwater.log import Catalog, Entry, Log, Quarantined, TableDefined, TableDropped, TimePassed, Updates

MEMORY_FILE = "intake-memory"
"""File name of the memory in the folder of a local log."""
ASIDE = ".aside"
"""Ending of the name under which a memory of another history is kept."""
SAVE_EVERY = 5_000_000
"""Rows between two savings of the memory: reading that many from the log takes a few seconds."""
KEYS_EVERY = 3600 * 1_000_000
"""Microseconds of the log clock between two purges of idempotency keys: sources that send no more leave none."""

_report = logging.getLogger("slackwater.intake")


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """Arrivals that are taken together, under an idempotency key or without one."""

    arrivals: Sequence[Arrival]
    key: RequestKey | None = None


class Intake:
    """Admits arrivals into a log. One intake writes to a log at a time."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        *,
        limits: Limits | None = None,
        memory: Path | None = None,
        log_clock: LogClock | None = None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._limits = limits or Limits()
        self._file = memory
        self._memory = self._recover()
        if log_clock is not None:
            # What is known of the log's time where retention dropped the records.
            self._memory.log_clock = self._memory.log_clock.after(log_clock.last).stamped(log_clock.latest_stamp)
        self._saved = remembered = self._memory.place.position
        self.blind_before = log.start if remembered < log.start else Position(0)
        # A former version's memory says nothing of the clock: what is left of the log does.
        self._remembered = log.start if self._memory.former else max(remembered, log.start)
        self._purged = Instant(0)
        self._catch_up()
        self._memory.forget_requests(self._recorded_time())

    @property
    def tables(self) -> Catalog:
        """The tables that can be written to."""
        return self._log.catalog()

    def now(self) -> Instant:
        """The log clock."""
        return self._memory.log_clock.now(self._clock.now())

    def define(self, schema: TableSchema) -> Position:
        """Create a table, or add columns to it; doing it again does nothing."""
        if self.tables.find(schema.name) == schema:
            return self._log.end
        return self._log.append([TableDefined(schema)])

    def take(self, arrivals: Sequence[Arrival], request: RequestKey | None = None) -> IntakeReceipt:
        """Admit the arrivals and make the outcome durable, with one append for all of them.

        `request` is the idempotency key under which they came; they are then of one table and source.
        """
        self._catch_up()
        tables, wall = self.tables, self._clock.now()
        named = [(_table(tables, arrival.table), arrival) for arrival in arrivals]
        clock = self._memory.log_clock
        keys = None if request is None or not named else self._keys(named)
        if keys is not None and request is not None:
            # A key out of its window stands for no request: of this one nothing may have been sent before.
            now = clock.now(wall)
            if keys.is_taken(request, now):
                return self._receipt_of_repetition(named)
            keys.check_room(now)
        records: list[Updates | Quarantined] = []
        seen: dict[Origin, Seen] = {}
        receipt: IntakeReceipt | None = None
        for table, arrival in named:
            origin = (table.name, arrival.source)
            before = seen.get(origin) or self._memory.seen.get(origin) or Seen()
            now = self._stamp(clock, wall)
            result = self._admit(arrival, table, before, now)
            seen[origin] = result.seen
            made = _records(table, result, now)
            for record in made:
                clock = self._clock_after(clock, record)
            records += made
            own = _receipt(result, keyed=request is not None)
            receipt = own if receipt is None else receipt.plus(own)
        if request is not None:
            records = _keyed(records, request)
        position = self._log.append(records) if records else self._log.end
        self._memory.seen |= seen
        self._memory.log_clock = clock
        if keys is not None and request is not None and records:
            keys.forget(clock.latest_stamp)
            keys.add(request, clock.latest_stamp)
            self._memory.requests[named[0][0].name, named[0][1].source] = keys
        self._purge_keys()
        self._remembered = position
        if position - self._saved >= SAVE_EVERY:
            self.save()
        return IntakeReceipt(0, 0, 0, position) if receipt is None else replace(receipt, position=position)

    def take_all(self, requests: Sequence[RowsRequest]) -> list[IntakeReceipt | Exception]:
        """Take requests one after the other; what refuses one of them, or fails it, stands in place of its receipt.

        Neighbours whose rows have one layout and no fault are admitted at once and become one record.
        """
        outcomes: list[IntakeReceipt | Exception] = []
        for run in _runs(requests):
            outcomes += self._take_neighbours(run)
        return outcomes

    def _take_neighbours(self, run: Sequence[RowsRequest]) -> list[IntakeReceipt | Exception]:
        """Take neighbours as one, or each half by itself where that cannot be: one fault costs log₂(requests) tries."""
        if len(run) == 1:
            return [self._outcome(run[0])]
        together = self._take_run(run)
        if together is not None:
            return [*together]
        middle = len(run) // 2
        return [*self._take_neighbours(run[:middle]), *self._take_neighbours(run[middle:])]

    def _outcome(self, request: RowsRequest) -> IntakeReceipt | Exception:
        try:
            return self.take(request.arrivals, request.key)
        except Exception as error:
            # Also a fault of the program: it must not decide what its neighbours are told.
            return error

    def _take_run(self, requests: Sequence[RowsRequest]) -> list[IntakeReceipt] | None:
        """The receipts of requests that were taken as one; None, and nothing is taken, where that cannot be.

        A fault of the program is met again where the request that it comes of is taken by itself.
        """
        self._catch_up()
        arrivals = [arrival for request in requests for arrival in request.arrivals]
        table = self.tables.find(arrivals[0].table)
        if table is None:
            return None
        clock = self._memory.log_clock
        first = self._stamp(clock, self._clock.now())
        # Each stamp is a microsecond after the one before, which is not before the wall clock.
        stamps = [Instant(first + nth) for nth in range(len(arrivals))]
        known = self._memory.seen
        before = {arrival.source: known.get((table.name, arrival.source)) or Seen() for arrival in arrivals}
        try:
            result = admit_run(arrivals, stamps, table, before, self._limits)
        except Exception:
            return None
        if result is None:
            return None
        record = Updates(table.name, result.accepted, stamps[-1])
        begin = self._log.end
        position = self._log.append([record])
        for source, seen in result.seen.items():
            known[table.name, source] = seen
        self._memory.log_clock = self._clock_after(clock, record)
        self._purge_keys()
        self._remembered = position
        if position - self._saved >= SAVE_EVERY:
            self.save()
        return list(_receipts(requests, result, begin))

    def save(self) -> None:
        """Write the memory down, so that older parts of the log are not needed to know repeats."""
        # Not the end of the log: an interrupt may have come between an append and its being remembered.
        self._memory.place = self._log.lineage.place(self._remembered)
        self._memory.forget_requests(self._recorded_time())
        self._saved = self._remembered
        self._write_memory(self._memory)

    def drop_before(self, position: Position) -> Position:
        """Let the log forget what lies before a position, after making sure that its rows stay remembered."""
        self.save()
        return self._log.drop_before(position)

    def close(self) -> None:
        """Save the memory; the log stays open."""
        self.save()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- admission

    def _admit(self, arrival: Arrival, table: TableSchema, seen: Seen, now: Instant) -> Admission:
        return admit(arrival, table, seen, now, self._limits)

    def _stamp(self, clock: LogClock, wall: Instant) -> Instant:
        """The moment of admission of the next arrival."""
        return clock.stamp(wall)

    def _clock_after(self, clock: LogClock, record: Updates | Quarantined) -> LogClock:
        """The log clock once a record is in the log."""
        if record.admitted is not None:
            return clock.stamped(record.admitted)
        # A former version wrote no stamp: not before its refusals, nor before the times of rows that brought none.
        if isinstance(record, Quarantined):
            return clock.stamped(_latest(record.batch.column("at")))
        table = self.tables.find(record.table)
        if table is None or table.event_time is not None:
            return clock
        # A sender may have given those times: of them nothing beyond the wall clock is a moment of admission.
        return clock.stamped(min(_latest(record.batch.column(EVENT_TIME)), self._clock.now()))

    def _keys(self, named: Sequence[tuple[TableSchema, Arrival]]) -> RequestKeys:
        """The idempotency keys of the one table and source that a request is for."""
        origins = {(table.name, arrival.source) for table, arrival in named}
        if len(origins) > 1:
            raise ValueError("a request under an idempotency key has rows of one source for one table")
        # Remembered once the request is taken: one that fails leaves nothing.
        return self._memory.requests.get(origins.pop()) or RequestKeys()

    def _recorded_time(self) -> Instant:
        """The log clock as far as it stands in the log."""
        clock = self._memory.log_clock
        return clock.now(clock.latest_stamp)

    def _purge_keys(self) -> None:
        """Forget old keys of all sources, each hour of the log's time."""
        now = self._recorded_time()
        if now - self._purged >= KEYS_EVERY:
            self._memory.forget_requests(now)
            self._purged = now

    def _receipt_of_repetition(self, named: Sequence[tuple[TableSchema, Arrival]]) -> IntakeReceipt:
        rows = sum(arrival.batch.num_rows + len(arrival.refused) for _, arrival in named)
        known_from = self._memory.seen.get((named[0][0].name, named[0][1].source), Seen()).floor
        return IntakeReceipt(0, 0, rows, self._log.end, promised=Promises(known_from=known_from), request_repeated=True)

    # ---- where the memory is saved

    def _read_memory(self) -> IntakeMemory:
        return load(self._file)

    def _write_memory(self, memory: IntakeMemory) -> None:
        if self._file is not None:
            store(self._file, memory)

    def _put_aside(self, memory: IntakeMemory) -> None:
        if self._file is not None:
            _report.warning(
                "what was taken is read from the log again: %s is of another history, at position %d; it is put aside",
                self._file,
                memory.place.position,
            )
            with suppress(OSError):
                disk.rename(self._file, self._file.with_name(self._file.name + ASIDE))

    # ---- recovery

    def _holds(self, place: Place) -> bool:
        """True if the memory at a place is one of this log's history."""
        return self._log.lineage.holds(place, self._log.end)

    def _recover(self) -> IntakeMemory:
        """The saved memory, if it is of use for this log."""
        memory = self._read_memory()
        if memory.place.position == 0:
            return memory
        if not self._holds(memory.place):
            self._put_aside(memory)
            return IntakeMemory()
        if memory.former and self._log.start == 0:
            # The log has it all, also which numbers had been given up in silence.
            return IntakeMemory()
        return memory

    def _catch_up(self) -> None:
        """Recall what is in the log and not in the memory: after opening, or after an interrupt."""
        end = self._log.end
        if self._remembered < end:
            for entry in self._log.read(self._remembered, end):
                self._recall(entry)
            self._remembered = end

    def _recall(self, entry: Entry) -> None:
        memory = self._memory
        match entry.record:
            case Updates(table, batch) | Quarantined(table, batch) as record:
                memory.log_clock = self._clock_after(memory.log_clock, record)
                sources = batch.column(SOURCE)
                for source in pc.unique(sources).to_pylist():
                    before = memory.seen.get((table, source)) or Seen()
                    _, memory.seen[table, source], _ = before.admit(_numbers(record, pc.equal(sources, source)))
                if record.request is not None and record.admitted is not None:
                    keys = memory.requests.setdefault((table, sources[0].as_py()), RequestKeys())
                    keys.add(record.request, record.admitted)
                    self._purge_keys()
            case TimePassed(time):
                memory.log_clock = memory.log_clock.after(time)
            case TableDropped(table):
                memory.forget(table)
            case _:
                pass


def _table(tables: Catalog, name: str) -> TableSchema:
    table = tables.find(name)
    if table is None:
        names = ", ".join(known.name for known in tables) or "none"
        raise SchemaError(f"there is no table {name!r} to write to; there are: {names}")
    return table


def _records(table: TableSchema, result: Admission, now: Instant) -> list[Updates | Quarantined]:
    records: list[Updates | Quarantined] = []
    if result.quarantined.num_rows:
        records.append(Quarantined(table.name, result.quarantined, now))
    if result.accepted.num_rows:
        records.append(Updates(table.name, result.accepted, now))
    return records


def _keyed(records: Sequence[Updates | Quarantined], request: RequestKey) -> list[Updates | Quarantined]:
    """One record of what was refused and then one of what was accepted, the last with the key; see the module."""
    made: list[Updates | Quarantined] = []
    for kind in (Quarantined, Updates):
        own = [record for record in records if isinstance(record, kind)]
        if own:
            made.append(replace(own[-1], batch=pa.concat_batches([record.batch for record in own])))
    if made:
        made[-1] = replace(made[-1], request=request)
    return made


def _receipt(result: Admission, *, keyed: bool) -> IntakeReceipt:
    """The receipt of one arrival, but for the position."""
    promised = Promises.of(result.accepted.column(SEQUENCE).to_numpy(), keyed=keyed)
    if result.outside_window or result.seen.floor:
        promised = replace(promised, outside_window=result.outside_window, known_from=result.seen.floor)
    return IntakeReceipt(
        result.accepted.num_rows,
        result.quarantined.num_rows,
        result.repeats,
        Position(0),
        result.given_up,
        result.ignored_columns,
        promised,
    )


def _runs(requests: Sequence[RowsRequest]) -> Iterator[Sequence[RowsRequest]]:
    """Neighbours of one table without a key, others alone."""
    begin = 0
    for at in range(1, len(requests) + 1):
        if at == len(requests) or not _is_run(requests[begin], requests[at]):
            yield requests[begin:at]
            begin = at


def _is_run(one: RowsRequest, other: RowsRequest) -> bool:
    if one.key is not None or other.key is not None or not one.arrivals or not other.arrivals:
        return False
    name = one.arrivals[0].table
    return all(arrival.table == name for request in (one, other) for arrival in request.arrivals)


def _receipts(requests: Sequence[RowsRequest], result: RunAdmission, begin: Position) -> Iterator[IntakeReceipt]:
    """The receipt of each request of a run; `begin` is where the log ended before it."""
    counts = iter(result.counts)
    numbered = result.sequences.min() >= 0
    at = 0
    for request in requests:
        start = at
        known_from = 0
        for arrival in request.arrivals:
            at += next(counts)
            known_from = max(known_from, result.seen[arrival.source].floor)
        promised = Promises(at - start) if numbered else Promises.of(result.sequences[start:at], keyed=False)
        if known_from:
            promised = replace(promised, known_from=known_from)
        yield IntakeReceipt(
            at - start, 0, 0, Position(begin + at), ignored_columns=result.ignored_columns, promised=promised
        )


def _numbers(record: Updates | Quarantined, own: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The numbers of the rows of one source that were taken, as they are today."""
    if isinstance(record, Quarantined):
        # A row outside the window was not taken.
        own = pc.and_(own, pc.not_equal(record.batch.column("reason"), str(Reason.OUTSIDE_WINDOW)))
    numbers = record.batch.column(SEQUENCE).filter(own).drop_null().to_numpy().astype(np.int64)
    return np.where(numbers < 0, of_former(numbers), numbers) if record.admitted is None else numbers


def _latest(times: pa.Array) -> Instant:
    return Instant(pc.max(times.cast(pa.int64())).as_py())
