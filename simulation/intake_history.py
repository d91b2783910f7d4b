"""History of a log as an intake's senders may rely on it, and the invariants of intake.

1.  *Once.* An acknowledged row with a number, an idempotency key or a time of its own is in the history exactly once,
    or it was refused, and then by name. Under a key that is: once within the window of the key.
2.  *At least once.* An acknowledged row without identity is in the history.
3.  *No repeat of nothing.* What a receipt counts as repeats was taken before, in this history.
4.  *Every row accounted for.* Accepted, quarantined and repeats are all rows; the promises add up to the accepted.
5.  *The last arrival wins*, in a table whose rows bring no event time.
6.  *A key is of no other request after its window.* Only within it another request under it is refused.
7.  *Log clock.* It never goes back, and is never ahead of the wall clock's latest reading: no event time moves it.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa

from simulation.invariants import Violation
from slackwater.admission import Limits, Reason
from slackwater.core.arrival import RequestKey
from slackwater.core.arrow import EVENT_TIME, SEQUENCE, SOURCE
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType, Instant, Position
from slackwater.intake import IntakeReceipt
from slackwater.intake.request_keys import KEPT_FOR
from slackwater.log import Log, Quarantined, Updates
from slackwater.processing.latest import LatestTable

_COLUMNS = (Column("k", DataType.TEXT, nullable=False), Column("mark", DataType.BIGINT))
UNDATED = TableSchema("undated", _COLUMNS, key=("k",))
"""Its rows bring no event time."""
GIVEN = TableSchema("given", _COLUMNS, key=("k",))
"""Its rows bring an event time beside the columns."""
DATED = TableSchema("dated", (*_COLUMNS, Column("at", DataType.TIMESTAMP)), key=("k",), event_time="at")
_SLACK = 10_000
"""Microseconds that stamps may be ahead of the wall clock: one for each arrival that came while it stood behind."""


@dataclass(frozen=True, slots=True)
class SentRow:
    """A row of a sender; `mark` is its own in all the world. A row without a key is refused."""

    mark: int
    key: str | None
    number: int | None = None
    time: Instant | None = None


@dataclass(slots=True, eq=False)
class SentRequest:
    """A request of a sender, sent until it is acknowledged."""

    table: TableSchema
    source: str
    rows: tuple[SentRow, ...]
    key: str | None = None
    acknowledged: bool = False
    void: bool = False
    """True if it was acknowledged by a history that was given up, and its sender does not send it again."""

    @property
    def request_key(self) -> RequestKey | None:
        """The idempotency key with a digest of the content."""
        return None if self.key is None else RequestKey(self.key, b"%d" % self.rows[0].mark)

    @property
    def exact(self) -> bool:
        """True if its rows have an identity."""
        return self.key is not None or any(row.number is not None or row.time is not None for row in self.rows)


@dataclass(slots=True)
class History:
    """What is in a log, read as it grows."""

    position: Position = Position(0)  # noqa: RUF009  an immutable int
    taken: Counter[int] = field(default_factory=Counter)
    keys: dict[tuple[str, str], tuple[RequestKey, Instant]] = field(default_factory=dict)
    """Of each source and key the request that was taken last, and when."""
    refused: dict[int, set[str]] = field(default_factory=dict)
    clock: Instant = Instant(0)  # noqa: RUF009
    rows: int = 0
    _ranks: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    _last: dict[str, int] = field(default_factory=dict)
    _stamps: dict[int, list[Instant]] = field(default_factory=dict)
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    def read(self, log: Log, wall: Instant) -> None:
        """Read on to the end; `wall` is the latest that the wall clock has shown."""
        for entry in log.read(self.position):
            match entry.record:
                case Updates(table, batch) | Quarantined(table, batch) as record:
                    admitted = record.admitted
                    if admitted is None or admitted < self.clock:
                        raise Violation(f"the log clock went back from {self.clock} to {admitted}")
                    if admitted > wall + _SLACK:
                        raise Violation(f"the log clock is at {admitted}, the wall clock was never beyond {wall}")
                    self.clock = admitted
                    self.rows += batch.num_rows
                    if record.request is not None:
                        self.keys[batch.column(SOURCE)[0].as_py(), record.request.key] = record.request, admitted
                    if isinstance(record, Quarantined):
                        self._refuse(batch)
                    else:
                        self._take(table, batch, admitted)
            self.position = entry.end

    def _refuse(self, batch: pa.RecordBatch) -> None:
        for text, reason in zip(batch.column("row").to_pylist(), batch.column("reason").to_pylist(), strict=True):
            self.refused.setdefault(msgspec.json.decode(text)["mark"], set()).add(reason)

    def _take(self, table: str, batch: pa.RecordBatch, admitted: Instant) -> None:
        times = batch.column(EVENT_TIME).cast(pa.int64()).to_pylist()
        marks: list[int] = batch.column("mark").to_pylist()
        self.taken.update(marks)
        for mark in marks:
            self._stamps.setdefault(mark, []).append(admitted)
        if table != UNDATED.name:
            if max(times) > admitted + Limits().ahead:
                raise Violation(f"a row at {max(times)} was accepted when the log clock was at {admitted}")
            return
        self._batches.append(batch)
        columns: list[list[Any]] = [batch.column(name).to_pylist() for name in ("k", SOURCE, SEQUENCE)]
        for key, source, sequence, time, mark in zip(*columns, times, marks, strict=True):
            rank = (time, source, sequence)
            if rank <= self._ranks.get(key, (0, "", 0)):
                raise Violation(f"row {mark} came last of {key} and lost: {rank} against {self._ranks[key]}")
            self._ranks[key] = rank
            self._last[key] = mark

    def has(self, row: SentRow) -> bool:
        """True if the row was taken, or refused for a fault of its own."""
        return self.taken[row.mark] > 0 or bool(self.refused.get(row.mark, set()) - {Reason.OUTSIDE_WINDOW})

    def check(self, request: SentRequest) -> None:
        """Check an acknowledged request."""
        for row in request.rows:
            times = self.taken[row.mark]
            if times == 0 and row.mark not in self.refused:
                raise Violation(f"row {row} of {request.source} was acknowledged, and is neither taken nor refused")
            if times > 1 and request.exact and not (request.key and self._is_apart(row)):
                raise Violation(f"row {row} of {request.source} is in the history {times} times")

    def _is_apart(self, row: SentRow) -> bool:
        """True if a row was taken again only after the window of its request's key."""
        return all(later - earlier > KEPT_FOR for earlier, later in pairwise(self._stamps[row.mark]))

    def check_refusal(self, request: SentRequest, now: Instant) -> None:
        """Check that a request was rightly refused, as its key is of another one, with the log clock at `now`."""
        assert request.key is not None
        known = self.keys.get((request.source, request.key))
        if known is None or known[0] == request.request_key or known[1] < now - KEPT_FOR:
            raise Violation(f"key {request.key!r} of {request.source} was refused as used at {now}; known is {known}")

    def check_receipt(self, request: SentRequest, receipt: IntakeReceipt, known: int) -> None:
        """Check a receipt; of the rows of the request so many were `known` before."""
        promised = receipt.promised
        if receipt.rows != len(request.rows):
            raise Violation(f"a receipt speaks of {receipt.rows} rows, {len(request.rows)} were sent")
        exactly = promised.by_number + promised.by_request + promised.by_content
        if exactly + promised.at_least_once != receipt.accepted:
            raise Violation(f"{receipt.accepted} rows were accepted, and promised is {promised}")
        if promised.at_least_once and request.exact:
            raise Violation(f"rows of {request.source} have an identity, and promised is {promised}")
        if receipt.repeats > known:
            raise Violation(f"{receipt.repeats} rows of {request.source} are called repeats, {known} were taken before")
        self.check(request)

    def check_latest(self) -> int:
        """Compare the latest state with the last arrivals; returns how many keys there are."""
        table = LatestTable(UNDATED)
        for batch in self._batches:
            table.fold(batch)
        latest = dict(zip(table.rows.column("k").to_pylist(), table.rows.column("mark").to_pylist(), strict=True))
        if latest != self._last:
            raise Violation(f"the latest rows are {latest}, the last that came {self._last}")
        return len(self._last)
