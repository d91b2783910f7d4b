"""Intake: source → admission → log, with durable deduplication state.

Every way in (a replayed file, a poller, a request to a server) hands its arrivals to an `Intake`, so that the same
checks hold everywhere. What was accepted and what was refused are appended together; only then does the intake
remember the rows as taken. A crash in between loses the memory and not the rows: the memory is rebuilt from the
log when it is opened, so a sender that repeats what was not acknowledged repeats nothing.

The memory is saved beside the log now and then (`memory` names the file), so that opening a long log reads only
what came after. Where retention has dropped rows that no saved memory covers, repeats of those cannot be told any
more; `blind_before` says up to which position.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import msgspec
import numpy as np
import pyarrow.compute as pc

from slackwater.admission import Limits, Seen, admit
from slackwater.core.arrival import Arrival
from slackwater.core.arrow import SEQUENCE, SOURCE
from slackwater.core.clock import Clock
from slackwater.core.durable_file import replace_file
from slackwater.core.errors import LogCorrupt, LogError, SchemaError, StoreError
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.log import Catalog, Entry, Log, Quarantined, Record, TableDefined, TableDropped, Updates

Origin: TypeAlias = tuple[str, str]
"""A table and a source: the scope of deduplication."""

MEMORY_FILE = "intake-memory"
"""File name of the memory in the folder of a local log."""
SAVE_EVERY = 5_000_000
"""Rows between two savings of the memory: reading that many from the log takes a few seconds."""


@dataclass(frozen=True, slots=True)
class IntakeReceipt:
    """Acknowledgement of an append, once it is durable; `position` is the end of the log then."""

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
        self._remembered = Position(max(remembered, log.start))
        if remembered > log.end:
            raise LogCorrupt(
                f"{memory} speaks of position {remembered}, but the log ends at {log.end}: "
                f"they do not belong together, or the log lost its end; remove the file to go on with the log as it is"
            )
        self.blind_before = log.start if remembered < log.start else Position(0)
        self._catch_up()
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

    def take(self, arrivals: Sequence[Arrival]) -> IntakeReceipt:
        """Admit the arrivals and make the outcome durable, with one append for all of them."""
        self._catch_up()
        tables, now = self.tables, self._clock.now()
        records: list[Record] = []
        seen: dict[Origin, Seen] = {}
        accepted = quarantined = repeats = given_up = 0
        ignored: dict[str, None] = {}
        for arrival in arrivals:
            table = tables.find(arrival.table)
            if table is None:
                names = ", ".join(known.name for known in tables) or "none"
                raise SchemaError(f"there is no table {arrival.table!r} to write to; there are: {names}")
            origin = (table.name, arrival.source)
            before = seen.get(origin) or self._seen.get(origin) or Seen()
            result = admit(arrival, table, before, now, self._limits)
            seen[origin] = result.seen
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
        self._remembered = position
        if position - self._saved >= SAVE_EVERY:
            self.save()
        return IntakeReceipt(accepted, quarantined, repeats, position, given_up, tuple(ignored))

    def save(self) -> None:
        """Write the memory down, so that older parts of the log are not needed to know repeats."""
        if self._memory is None:
            return
        # Not the end of the log: an interrupt may have come between an append and its being remembered.
        self._saved = self._remembered
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

    def _catch_up(self) -> None:
        """Recall what is in the log and not in the memory: after opening, or after an interrupt."""
        end = self._log.end
        if self._remembered < end:
            for entry in self._log.read(self._remembered, end):
                self._recall(entry)
            self._remembered = end

    def _recall(self, entry: Entry) -> None:
        match entry.record:
            case Updates(table, batch) | Quarantined(table, batch):
                sources = batch.column(SOURCE)
                for source in pc.unique(sources).to_pylist():
                    own = batch.column(SEQUENCE).filter(pc.equal(sources, source)).drop_null()
                    before = self._seen.get((table, source)) or Seen()
                    _, self._seen[table, source], _ = before.admit(own.to_numpy().astype(np.int64))
            case TableDropped(table):
                # A table made anew under the same name has taken nothing yet.
                self._seen = {origin: seen for origin, seen in self._seen.items() if origin[0] != table}
            case _:
                pass


class _Remembered(msgspec.Struct):
    table: str
    source: str
    ranges: list[tuple[int, int]]
    recent: list[int]


class _Memory(msgspec.Struct):
    format: int
    position: int
    sources: list[_Remembered]


_FORMAT = 2


def _load(path: Path | None) -> tuple[dict[Origin, Seen], Position]:
    """The saved memory, or an empty one; a damaged file counts as none, since the log has it all."""
    nothing: tuple[dict[Origin, Seen], Position] = ({}, Position(0))
    if path is None:
        return nothing
    try:
        content = path.read_bytes()
        if int.from_bytes(content[:4], "little") != zlib.crc32(content[4:]):
            return nothing
        memory = msgspec.msgpack.decode(content[4:], type=_Memory)
    except (OSError, ValueError, msgspec.MsgspecError):
        return nothing
    if memory.format != _FORMAT:
        return nothing
    return {(one.table, one.source): _seen(one) for one in memory.sources}, Position(memory.position)


def _seen(source: _Remembered) -> Seen:
    starts = np.array([start for start, _ in source.ranges], np.int64)
    ends = np.array([end for _, end in source.ranges], np.int64)
    return Seen(starts, ends, np.array(source.recent, np.int64))


def _store(path: Path, seen: dict[Origin, Seen], position: Position) -> None:
    """Replace the file as a whole: after a crash there is the old one or the new one. A checksum stands before it."""
    sources = [_Remembered(*origin, memory.ranges(), memory.recent.tolist()) for origin, memory in seen.items()]
    content = msgspec.msgpack.encode(_Memory(_FORMAT, position, sources))
    try:
        replace_file(path, zlib.crc32(content).to_bytes(4, "little") + content)
    except StoreError as error:
        raise LogError(f"what was taken cannot be written down: {error}") from error
