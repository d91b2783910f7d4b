"""JetStream log: a log in a replicated stream, for nodes on several machines.

    slackwater.log.NAME.log.record   blocks of records, see `jetstream_block`
    slackwater.log.NAME.log.table    blocks with table definitions: the catalog is rebuilt from them alone
    slackwater.log.NAME.base         where the log begins, and the tables by then
    slackwater.log.NAME.writer       fence of the present writer, and the incarnations of the log

What is relied on
    *Durable*: the servers acknowledge a message when it is stored. By default they flush files to the disk every two
    minutes, so a power cut takes what came since. For promise 2 of `base`, let them flush before they acknowledge
    (`jetstream { sync_interval: always }`), or keep several replicas on machines that do not fail together.

    *One writer*: each message says which one must be the last before it, and the servers store it only if it is. A
    writer begins by storing a message of its own, so whatever a former one still sends does not fit any more: it is
    refused, however late it comes. That is what keeps the log whole. A second writer is refused before that, while
    the first lives, because the first responds to requests (`slackwater.writer.NAME`); NATS reports at once where there
    is no responder. A writer that cannot reach the servers counts as dead: another one may take over, and the
    first learns it by its next append (`LogLocked`).

    *Damage*: the checksum of each message is ours, from the writer to the reader. A server that finds its own files
    damaged lets go of what lies behind the damage and says nothing. So the end of the log is also kept elsewhere, in
    the small stream NAME-mark, after each append and without waiting for it: a log that ends before its mark has lost
    what was acknowledged, and is `LogCorrupt`.

    *Lineage*: the fence of a writer lists the incarnations, its own last, and each message of records names its writer.
    A stream that was deleted and made again, or restored from a copy, lists others.

A read-only log asks the servers at each call. A writer knows the end by itself, and keeps what it appended last in
memory, where the node that reads it back finds it.
"""

import os
import socket
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Self

import msgspec

from slackwater.core.bus import bus_address
from slackwater.core.errors import LogAway, LogCorrupt, LogError, LogLocked, OutcomeUnknown, PositionGone
from slackwater.core.lineage import Lineage, PlainLineage
from slackwater.core.types import Position
from slackwater.log.base import Entry, check_range, cut
from slackwater.log.catalog import Catalog
from slackwater.log.incarnation import new_incarnation
from slackwater.log.jetstream_block import PIECE_HEAD, Assembly, RecordBlock, blocks, read_piece, records
from slackwater.log.jetstream_stream import Stream, StreamMessage
from slackwater.log.records import CATALOG_KINDS, Record, decode, decode_tables, encode, encode_tables
from slackwater.log.writer import MOST_APPEND

PATIENCE = 10.0
"""Seconds to wait for servers that do not answer."""
_ALIVE_SECONDS = 2.0
_RECENT_BYTES = 64 * 1024 * 1024
_MOST_PLACES = 4096
_MOST_AHEAD = 64
_AHEAD_BYTES = 4 * 1024 * 1024
_BEGINNING = Position(0)
_LOG, _RECORD, _TABLE, _BASE, _WRITER = "log.>", "log.record", "log.table", "base", "writer"


class _Base(msgspec.Struct, frozen=True):
    """Where the log begins: a position, the sequence of the message from which on to look, the tables by then."""

    start: int = 0
    sequence: int = 1
    tables: bytes = b"[]"

    @property
    def catalog(self) -> Catalog:
        return Catalog(decode_tables(self.tables))


class _Claim(msgspec.Struct):
    """Fence of a writer. Before logs listed their incarnations it was a line of text."""

    holder: str
    writer: int
    lineage: PlainLineage


@dataclass(frozen=True, slots=True)
class _StreamView:
    """What is in the stream at a moment: the log from `base.start` to `end`, in messages up to `last`.

    `writer` appended the last of them; 0 where there is none.
    """

    base: _Base
    end: Position
    last: int
    writer: int = 0


@dataclass(frozen=True, slots=True)
class _RecentBlock:
    """A block that was appended lately."""

    first: Position
    end: Position
    content: bytes


class JetStreamLog:
    """A `Log` in the stream of an address as `nats://host:4222/name`; made by opening it for writing.

    Any number of threads may use one. `patience`: seconds for which it waits while the servers are away.
    `piece_bytes`: the largest message, where that is to be smaller than the servers allow. `replicas`: how many
    servers keep a stream that is made.
    """

    def __init__(
        self,
        address: str,
        *,
        read_only: bool = False,
        patience: float = PATIENCE,
        replicas: int = 1,
        piece_bytes: int | None = None,
    ) -> None:
        try:
            place = bus_address(address, named=True)
        except ValueError as error:
            raise LogError(str(error)) from None
        self._read_only = read_only
        self._closed = False
        self._appending = Lock()
        self._guard = Lock()
        self._places: OrderedDict[Position, int] = OrderedDict()
        self._recent: deque[_RecentBlock] = deque()
        self._recent_bytes = 0
        self._folded: tuple[Position, int, Catalog] | None = None
        self._unsettled = False
        self._writer = new_incarnation()
        self._stream = Stream(place, patience)
        try:
            self._piece_bytes = min(piece_bytes or self._stream.largest, self._stream.largest)
            if self._piece_bytes <= PIECE_HEAD:
                raise LogError(f"piece_bytes must be more than {PIECE_HEAD}")
            if not self._stream.exists():
                if read_only:
                    raise LogError(f"there is no log at {place}: the stream {place.name} does not exist")
                self._stream.make(replicas)
            self._stream.check()
            self._view = self._sound()
            self._lineage = self._listed()
            if not read_only:
                # Before the claim: nothing is written to a log that lost something.
                self._fence = self._claim()
                self._view = self._look()
            self._catalog = self._catalog_of(self._view)
            if not read_only:
                self._stream.make_mark()
                self._stream.mark(self._view.end)
                self._finish_dropping(self._view.base)
        except BaseException:
            self._stream.close()
            raise

    @property
    def start(self) -> Position:
        """The first position still held."""
        return Position(self._present().base.start)

    @property
    def end(self) -> Position:
        """The position after the last durable record."""
        return self._present().end

    @property
    def lineage(self) -> Lineage:
        """The incarnations, the present one last."""
        self._present()
        if self._read_only:
            # Another writer may have begun one and appended nothing yet.
            self._lineage = self._listed()
        return self._lineage

    def append(self, records: Sequence[Record]) -> Position:
        """Make the records durable and return the position after them."""
        self._check_writable()
        encoded = [encode(record) for record in records]
        size = sum(len(piece) for one in encoded for piece in one.body)
        if size > MOST_APPEND:
            raise LogError(f"an append of {size} bytes is more than the {MOST_APPEND} allowed; append less at a time")
        made = blocks(encoded, CATALOG_KINDS)
        with self._appending:
            self._check_writable()
            self._settle()
            catalog = self._catalog
            for record in records:
                catalog = catalog.after(record)
            begun = self._view.end
            for block in made:
                try:
                    self._store_block(block)
                except LogError as error:
                    if self._view.end == begun:
                        raise
                    kept = f"of this append, positions {begun} to {self._view.end} were kept"
                    # Part of it stands there, whatever became of the rest.
                    kind = type(error) if isinstance(error, LogAway | LogCorrupt | LogLocked) else OutcomeUnknown
                    raise kind(f"{error}; {kept}") from error
            self._catalog = catalog
            self._stream.mark(self._view.end)
            return self._view.end

    def read(self, start: Position, end: Position | None = None) -> Iterator[Entry]:
        """Yield entries from `start` up to `end` (by default the end as it is now), batches cut to fit."""
        view = self._present()
        end = view.end if end is None else end
        check_range(start, end, Position(view.base.start), view.end)
        return self._entries(start, end, view.last)

    def catalog(self, upto: Position | None = None) -> Catalog:
        """The tables as of a position, by default as of the end."""
        view = self._present()
        if upto is None or upto == view.end:
            return self._catalog if not self._read_only else self._catalog_of(view)
        check_range(upto, upto, Position(view.base.start), view.end)
        return self._fold((Position(view.base.start), view.base.sequence, view.base.catalog), upto, view.last)[2]

    def check_servers(self) -> None:
        """Raise `LogAway` where the servers do not answer."""
        self._check_open()
        self._stream.last_sequence()

    def drop_before(self, position: Position) -> Position:
        """Forget the blocks that lie wholly before the position; return the new start."""
        self._check_writable()
        with self._appending:
            self._settle()
            view = self._view
            if position > view.end:
                raise PositionGone(f"cannot drop up to {position}: the log ends at {view.end}")
            if position <= view.base.start:
                return Position(view.base.start)
            if position == view.end:
                first, sequence = view.end, self._fence + 1
            else:
                first, sequence = self._locate(position, view)
            if first <= view.base.start:
                return Position(view.base.start)
            base = _Base(first, sequence, encode_tables(self.catalog(first).tables))
            content = msgspec.json.encode(base)
            if len(content) > self._stream.largest:
                raise LogError(f"the definitions of all tables take {len(content)} bytes, more than a message may have")
            self._fence = self._store(_BASE, content)
            self._view = _StreamView(base, view.end, self._fence, view.writer)
            self._finish_dropping(base)
            return first

    def close(self) -> None:
        """Wait for appends under way, then let the next writer in."""
        with self._appending:
            if not self._closed:
                self._closed = True
                self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- writing

    def _claim(self) -> int:
        """Become the writer; returns the sequence of the fence message."""
        stream = self._stream
        last = stream.last_sequence()
        holder = stream.ask(_ALIVE_SECONDS)
        if holder is not None:
            raise LogLocked(
                f"the log at {stream.address} is being written by {holder}; end that one, or open the log with "
                f"read_only=True"
            )
        # From here on others are refused; if two come this far at once, the servers take one of the messages.
        who = f"process {os.getpid()} on {socket.gethostname()}"
        stream.answer(who)
        lineage = self._listed().begin(self._writer, self._look().end)
        fence = stream.store(_WRITER, msgspec.json.encode(_Claim(who, self._writer, lineage.plain())), last)
        stream.purge(_WRITER, keep=1)
        self._lineage = lineage
        return fence

    def _listed(self) -> Lineage:
        """The incarnations that the present writer's fence lists."""
        claim = self._present_claim()
        try:
            return Lineage() if claim is None else Lineage.read(claim.lineage)
        except ValueError as error:
            raise LogCorrupt(f"the incarnations of the log at {self._stream.address} cannot be read: {error}") from None

    def _present_claim(self) -> _Claim | None:
        message = self._stream.last(_WRITER)
        if message is None or not message.payload.startswith(b"{"):
            return None
        try:
            return msgspec.json.decode(message.payload, type=_Claim)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(f"the fence of the log at {self._stream.address} cannot be read: {error}") from None

    def _store_block(self, block: RecordBlock) -> None:
        view = self._view
        subject = _TABLE if block.tables else _RECORD
        begun = self._fence + 1
        for piece in block.pieces(view.end, self._writer, self._piece_bytes):
            self._fence = self._store(subject, piece)
        end = Position(view.end + block.rows)
        with self._guard:
            self._recent.append(_RecentBlock(view.end, end, block.content))
            self._recent_bytes += len(block.content)
            while self._recent_bytes > _RECENT_BYTES and len(self._recent) > 1:
                self._recent_bytes -= len(self._recent.popleft().content)
        self._remember(view.end, begun)
        self._view = _StreamView(view.base, end, self._fence, self._writer)

    def _store(self, subject: str, payload: bytes) -> int:
        # Whatever interrupts it: the next append begins by looking at what there is.
        unsettled, self._unsettled = self._unsettled, True
        try:
            stored = self._stream.store(subject, payload, self._fence)
        except LogLocked:
            if self._writes():
                raise LogError(
                    f"an append to the log at {self._stream.address} that had failed came late; nothing of this one "
                    f"was kept: look at the end of the log, then append it again"
                ) from None
            raise
        self._unsettled = unsettled
        return stored

    def _writes(self) -> bool:
        """True while this log is still the writer."""
        claim = self._present_claim()
        return claim is not None and claim.writer == self._writer

    def _settle(self) -> None:
        """After an append that failed, see what was kept of it."""
        if not self._unsettled:
            return
        last, view = self._stream.last_sequence(), self._look()
        if not self._writes():
            raise LogLocked(f"the log at {self._stream.address} was taken over by another writer; close this log")
        kept = view.end - self._view.end
        self._fence, self._view, self._catalog = last, view, self._catalog_of(view)
        self._unsettled = False
        if kept:
            raise LogError(
                f"an append to the log at {self._stream.address} that had failed was kept after all: it ends at "
                f"{view.end} now; nothing of this one was kept, append it again"
            )

    def _finish_dropping(self, base: _Base) -> None:
        """Also what a crash left of it: what lies before the start is not read any more, but takes space."""
        if base.start:
            self._stream.purge(_LOG, before=base.sequence)
            self._stream.purge(_BASE, keep=1)

    # ---- reading

    def _present(self) -> _StreamView:
        self._check_open()
        if self._read_only:
            # What was seen before this look is promised; others may look, and see more, in the meantime.
            seen = self._view
            view = self._look()
            if view.writer != seen.writer or view.end < seen.end:
                self._follow_writer(seen, view)
            with self._guard:
                if view.end >= self._view.end:
                    self._view = view
        return self._view

    def _follow_writer(self, seen: _StreamView, view: _StreamView) -> None:
        """Another writer has appended; or the stream was made again, and nothing that was seen counts."""
        before, lineage = self._lineage, self._listed()
        if not lineage.holds(before.place(seen.end)):
            with self._guard:
                self._places.clear()
                self._recent.clear()
                self._recent_bytes, self._folded, self._view = 0, None, view
        elif view.end < seen.end:
            raise self._lost(view, seen.end)
        self._lineage = lineage

    def _sound(self) -> _StreamView:
        """What there is, if that is all that was acknowledged."""
        marked, view = self._stream.marked(), self._look()
        if marked > view.end:
            raise self._lost(view, marked)
        return view

    def _lost(self, view: _StreamView, promised: int) -> LogCorrupt:
        return LogCorrupt(
            f"the log at {self._stream.address} ends at position {view.end}, but everything before {promised} had been "
            f"acknowledged: the servers lost it; put back a copy of the stream, or delete the stream "
            f"{self._stream.mark_name} to accept the loss"
        )

    def _look(self) -> _StreamView:
        based, last = self._stream.last(_BASE), self._stream.last(_LOG)
        try:
            base = _Base() if based is None else msgspec.json.decode(based.payload, type=_Base)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(f"the beginning of the log at {self._stream.address} cannot be read: {error}") from None
        piece = None if last is None else read_piece(last.sequence, last.payload)
        end = Position(base.start) if piece is None else piece.end
        # The two were asked for one after the other: the log may have been emptied in between.
        number, writer = (0, 0) if piece is None else (piece.sequence, piece.writer)
        return _StreamView(base, Position(max(end, base.start)), number, writer)

    def _entries(self, start: Position, end: Position, last: int) -> Iterator[Entry]:
        position = start
        while position < end:
            kept = self._kept(position)
            if kept is None:
                yield from self._stored(position, end, last)
                return
            for stored in records(kept.first, kept.content):
                after = Position(stored.first + stored.rows)
                if after > position:
                    yield cut(Entry(stored.first, decode(stored)), start, end)
                    position = after
                    if position >= end:
                        return

    def _kept(self, position: Position) -> _RecentBlock | None:
        with self._guard:
            nth = bisect_right(self._recent, position, key=lambda one: one.first) - 1
            return self._recent[nth] if nth >= 0 and position < self._recent[nth].end else None

    def _stored(self, start: Position, end: Position, last: int) -> Iterator[Entry]:
        """Entries out of the stream."""
        view = self._present()
        if start < view.base.start:
            raise PositionGone(f"position {start} was dropped while it was being read; it starts at {view.base.start}")
        first, sequence = self._locate(start, _StreamView(view.base, view.end, last))
        expected = first
        for at, content in self._blocks(sequence, last):
            if at != expected:
                if start < self.start:
                    raise PositionGone(f"position {start} was dropped while it was being read")
                raise LogCorrupt(f"positions {expected} to {at} are missing from the stream; put back a copy")
            for stored in records(at, content):
                expected = Position(stored.first + stored.rows)
                if expected > start:
                    yield cut(Entry(stored.first, decode(stored)), start, end)
                if expected >= end:
                    return
        if Position(max(expected, start)) < self.start:
            raise PositionGone(f"position {expected} was dropped while it was being read")
        raise LogCorrupt(f"the records from position {expected} on are missing from the stream; put back a copy")

    def _blocks(self, sequence: int, last: int) -> Iterator[tuple[Position, memoryview | bytes]]:
        """Whole blocks from a message on, in order."""
        assembly, ahead, begun = Assembly(), 2, sequence
        while sequence <= last:
            count = min(ahead, last - sequence + 1)
            found = [one for one in self._stream.get(sequence, count) if one.subject in (_RECORD, _TABLE)]
            sequence += count
            for message in found:
                piece = read_piece(message.sequence, message.payload)
                if piece.number == 0:
                    begun = piece.sequence
                block = assembly.add(piece)
                if block is not None:
                    self._remember(block[0], begun)
                    yield block
            average = sum(len(one.payload) for one in found) // max(1, len(found)) + 1
            ahead = max(2, min(2 * ahead, _MOST_AHEAD, _AHEAD_BYTES // average))

    def _locate(self, position: Position, view: _StreamView) -> tuple[Position, int]:
        """The first position of the block that holds a position, and the sequence of its first message."""
        with self._guard:
            known = self._places.get(position)
        if known is not None:
            return position, known
        # The first positions of messages never go down: look for the last one that is not beyond.
        low, high = view.base.sequence, view.last
        found: StreamMessage | None = None
        while low <= high:
            middle = (low + high) // 2
            message = self._stream.next(middle, _LOG)
            if message is None or message.sequence > high:
                high = middle - 1
                continue
            piece = read_piece(message.sequence, message.payload)
            if piece.first <= position:
                found, low = message, message.sequence + 1
            else:
                high = middle - 1
        if found is None:
            raise LogCorrupt(f"the stream {self._stream.name} holds nothing at position {position}; put back a copy")
        piece = read_piece(found.sequence, found.payload)
        return piece.first, found.sequence - piece.number

    def _remember(self, position: Position, sequence: int) -> None:
        """Cache the start of a block, so that sequential readers need no search."""
        with self._guard:
            self._places[position] = sequence
            if len(self._places) > _MOST_PLACES:
                self._places.popitem(last=False)

    # ---- tables

    def _catalog_of(self, view: _StreamView) -> Catalog:
        """The tables at the end; what was read of them before is not read again."""
        known = self._folded
        if known is None or known[0] < view.base.start:
            known = (Position(view.base.start), view.base.sequence, view.base.catalog)
        self._folded = self._fold(known, view.end, view.last)
        return self._folded[2]

    def _fold(self, known: tuple[Position, int, Catalog], upto: Position, last: int) -> tuple[Position, int, Catalog]:
        """Go on from the tables as of a position, with the messages from a sequence on."""
        position, sequence, catalog = known
        assembly = Assembly()
        while sequence <= last:
            message = self._stream.next(sequence, _TABLE)
            if message is None or message.sequence > last:
                break
            piece = read_piece(message.sequence, message.payload)
            block = assembly.add(piece)
            if block is not None:
                for stored in records(*block):
                    after = Position(stored.first + stored.rows)
                    if after > upto:
                        return position, sequence, catalog
                    if after > position and stored.kind in CATALOG_KINDS:
                        catalog = catalog.after(decode(stored))
                        position = after
            sequence = message.sequence + 1
        return position, sequence, catalog

    def _check_writable(self) -> None:
        self._check_open()
        if self._read_only:
            raise LogError(f"the log at {self._stream.address} was opened with read_only=True: it cannot be changed")

    def _check_open(self) -> None:
        if self._closed:
            raise LogError(f"the log at {self._stream.address} is closed; open it again")
