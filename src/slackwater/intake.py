"""The way in: source → admission → log, with a memory of what was already taken.

Every way in (a replayed file, a poller, a request to a server) hands its arrivals to an `Intake`, so that the same
checks hold everywhere. What was accepted and what was refused are appended together; only then does the intake
remember the rows as taken. A crash in between loses the memory and not the rows: the memory is rebuilt from the
log when it is opened, so a sender that repeats what was not acknowledged repeats nothing.

The memory is saved beside the log now and then (`memory` names the file), so that opening a long log reads only
what came after. Where retention has dropped rows that no saved memory covers, repeats of those cannot be told any
more; `blind_before` says up to which position.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import numpy as np
import pyarrow.compute as pc

from slackwater.admission import Limits, Seen, admit
from slackwater.core.arrival import Arrival
from slackwater.core.arrow import SEQUENCE, SOURCE
from slackwater.core.clock import Clock
from slackwater.core.errors import LogCorrupt, SchemaError
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.log import Catalog, Entry, Log, Quarantined, Record, TableDefined, Updates

MEMORY_FILE = "intake-memory"
"""What the memory's file is called in the folder of a local log."""
SAVE_EVERY = 5_000_000
"""Rows between two savings of the memory: reading that many from the log takes a few seconds."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of what was handed in, once it is durable; `position` is the end of the log then."""

    accepted: int
    quarantined: int
    repeats: int
    position: Position
    given_up: int = 0
    ignored_columns: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """All rows that came."""
        return self.accepted + self.quarantined + self.repeats


class Intake:
    """Admits arrivals into a log. One intake writes to a log at a time."""

    def __init__(self, log: Log, clock: Clock, *, limits: Limits | None = None, memory: Path | None = None) -> None:
        self._log = log
        self._clock = clock
        self._limits = limits or Limits()
        self._memory = memory
        self._seen, remembered = _load(memory)
        if remembered > log.end:
            raise LogCorrupt(
                f"{memory} speaks of position {remembered}, but the log ends at {log.end}: "
                f"they do not belong together, or the log lost its end; remove the file to go on with the log as it is"
            )
        self.blind_before = log.start if remembered < log.start else Position(0)
        for entry in log.read(max(remembered, log.start)):
            self._recall(entry)
        self._saved = remembered

    @property
    def tables(self) -> Catalog:
        """The tables that can be written to."""
        return self._log.catalog()

    def define(self, schema: TableSchema) -> Position:
        """Create a table, or add columns to it; doing it again does nothing."""
        if self.tables.find(schema.name) == schema:
            return self._log.end
        return self._log.append([TableDefined(schema)])

    def take(self, arrivals: Sequence[Arrival]) -> Receipt:
        """Admit the arrivals and make the outcome durable, with one append for all of them."""
        tables, now = self.tables, self._clock.now()
        records: list[Record] = []
        seen: dict[str, Seen] = {}
        accepted = quarantined = repeats = given_up = 0
        ignored: dict[str, None] = {}
        for arrival in arrivals:
            table = tables.find(arrival.table)
            if table is None:
                names = ", ".join(known.name for known in tables) or "none"
                raise SchemaError(f"there is no table {arrival.table!r} to write to; there are: {names}")
            before = seen.get(arrival.source) or self._seen.get(arrival.source) or Seen()
            result = admit(arrival, table, before, now, self._limits)
            seen[arrival.source] = result.seen
            if result.accepted.num_rows:
                records.append(Updates(table.name, result.accepted))
            if result.quarantined.num_rows:
                records.append(Quarantined(table.name, result.quarantined))
            accepted += result.accepted.num_rows
            quarantined += result.quarantined.num_rows
            repeats += result.repeats
            given_up += result.given_up
            ignored |= dict.fromkeys(result.ignored_columns)
        position = self._log.append(records) if records else self._log.end
        self._seen |= seen
        if position - self._saved >= SAVE_EVERY:
            self.save()
        return Receipt(accepted, quarantined, repeats, position, given_up, tuple(ignored))

    def save(self) -> None:
        """Write the memory down, so that older parts of the log are not needed to know repeats."""
        if self._memory is None:
            return
        # Everything up to the end is remembered: only this intake appends.
        self._saved = self._log.end
        _store(self._memory, self._seen, self._saved)

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

    def _recall(self, entry: Entry) -> None:
        match entry.record:
            case Updates(_, batch) | Quarantined(_, batch):
                sources = batch.column(SOURCE)
                for source in pc.unique(sources).to_pylist():
                    own = batch.column(SEQUENCE).filter(pc.equal(sources, source)).drop_null()
                    before = self._seen.get(source) or Seen()
                    _, self._seen[source], _ = before.admit(own.to_numpy().astype(np.int64))
            case _:
                pass


class _Remembered(msgspec.Struct):
    source: str
    ranges: list[tuple[int, int]]
    recent: list[int]


class _Memory(msgspec.Struct):
    format: int
    position: int
    sources: list[_Remembered]


_FORMAT = 1


def _load(path: Path | None) -> tuple[dict[str, Seen], Position]:
    """What was saved, or nothing; a file that cannot be read is as good as none, the log has it all."""
    if path is None or not path.exists():
        return {}, Position(0)
    try:
        memory = msgspec.msgpack.decode(path.read_bytes(), type=_Memory)
    except msgspec.MsgspecError:
        return {}, Position(0)
    if memory.format != _FORMAT:
        return {}, Position(0)
    return {source.source: _seen(source) for source in memory.sources}, Position(memory.position)


def _seen(source: _Remembered) -> Seen:
    starts = np.array([start for start, _ in source.ranges], np.int64)
    ends = np.array([end for _, end in source.ranges], np.int64)
    return Seen(starts, ends, np.array(source.recent, np.int64))


def _store(path: Path, seen: dict[str, Seen], position: Position) -> None:
    """Replace the file as a whole: after a crash there is the old one or the new one."""
    sources = [_Remembered(name, memory.ranges(), memory.recent.tolist()) for name, memory in seen.items()]
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        file.write(msgspec.msgpack.encode(_Memory(_FORMAT, position, sources)))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
