"""Ingest streams: the rows of one live connection on their way into the log, without I/O.

Contract
1.  *In order.* Of one stream at most one change is on its way to the log. What arrives meanwhile gathers and becomes
    the next change, so the number of changes adapts to how fast they become durable. A change that fails takes with it
    all that gathered behind it, and the client sends from its first row on: no later row overtakes an earlier one.
2.  *Acknowledged once durable.* `Ingested` is made by `durable` and by nothing else. It is cumulative: a client may
    drop all rows below `next`.
3.  *Refused by name.* A message that no repetition can help (no such table, no right, another shape, more than the
    window, rows left out) ends its stream, not the session. What may succeed later is refused with `again`.
4.  *Bounded.* Rows and bytes are counted from `received` until they are durable or refused. More than the window ends
    the stream.

Design
    Messages carry table, source and number of the first row, so the state that lasts is one number for each stream:
    the next expected row. A stream without rows on their way may therefore be forgotten; its next message begins it
    anew. After `again` messages that were sent before the client heard of it still arrive. They are passed over until
    one begins with the expected row; transports keep the order, so everything behind that one belongs to it.

    Repeats need no state here: rows are known by source and number where they are admitted.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from slackwater.dissemination.messages import (
    MESSAGE_OVERHEAD,
    ColumnRows,
    Ingest,
    Ingested,
    IngestRefused,
    IngestWindow,
)
from slackwater.intake import IntakeReceipt

MOST_ROWS: Final = 20_000
"""Rows of one change: others have their turn before the rest."""
LARGEST_NUMBER: Final = 2**61
LONGEST_SOURCE: Final = 128
MOST_REMEMBERED: Final = 16
"""Streams that are remembered for each that may be busy: those that a client was asked to send again."""


@dataclass(frozen=True, slots=True)
class StreamRefusal:
    """Reason why rows are not taken; `status` and `code` as in an answer of REST. `again`: it may pass."""

    status: int
    code: str
    why: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Taking:
    """Messages of one stream that become one change."""

    stream: int
    messages: tuple[Ingest, ...]
    rows: int
    size: int

    @property
    def first(self) -> int:
        """Number of the first row."""
        return self.messages[0].first


@dataclass(slots=True)
class IngestTotals:
    """Counts of rows over all live connections of a node since it began."""

    messages: int = 0
    changes: int = 0
    rows: int = 0
    """Rows that are durable, quarantined ones and repeats among them."""
    refusals: int = 0
    waiting: int = 0
    """Bytes of messages whose rows are not durable yet."""


@dataclass(slots=True)
class _Stream:
    origin: tuple[str, str, str | None]
    expected: int
    """Number of the next row to arrive."""
    waiting: deque[tuple[Ingest, int]] = field(default_factory=deque)
    """Messages for the next change, with what they count for."""
    taking: Taking | None = None
    rewound: bool = False
    """True while what arrives was sent before the client heard that it must send again."""
    refused: bool = False

    @property
    def busy(self) -> bool:
        """True while rows of it are on their way to the log."""
        return bool(self.waiting) or self.taking is not None


class IngestStreams:
    """The streams of one connection.

    `check` looks at the first message of a stream: has the client the right, is there such a table. `room` is asked
    before bytes are taken on, for what all connections together may hold.
    """

    def __init__(
        self,
        window: IngestWindow | None,
        check: Callable[[Ingest], StreamRefusal | None],
        room: Callable[[int], bool] = lambda size: True,
    ) -> None:
        self._window = window
        self._check = check
        self._room = room
        self._streams: dict[int, _Stream] = {}
        self._ready: dict[int, _Stream] = {}
        """Streams with messages that wait and no change on its way, in the order in which they became so."""
        self.rows = 0
        self.bytes = 0
        """Rows and bytes, as the window counts them, that are not durable yet."""

    def received(self, message: Ingest, size: int) -> IngestRefused | None:
        """A message of so many bytes came; returns the refusal to send at once, if it is refused."""
        size += MESSAGE_OVERHEAD
        number = message.stream
        stream = self._streams.get(number)
        if stream is None:
            stream = self._streams[number] = _Stream(_origin(message), message.first)
            refusal = self._refusal_of_beginning(message)
            if refusal is not None:
                return self._refuse(message, stream, refusal)
        if stream.refused or (stream.rewound and message.first != stream.expected):
            return None
        stream.rewound = False
        refusal = self._refusal(message, size, stream)
        if refusal is not None:
            return self._refuse(message, stream, refusal)
        stream.expected += message.count
        stream.waiting.append((message, size))
        self.rows += message.count
        self.bytes += size
        if stream.taking is None:
            self._ready[number] = stream
        return None

    def due(self) -> Iterator[Taking]:
        """The changes that may go to the log now, one a stream."""
        while self._ready:
            number = next(iter(self._ready))
            stream = self._ready.pop(number)
            messages: list[Ingest] = []
            rows = size = 0
            while stream.waiting and (not messages or rows + stream.waiting[0][0].count <= MOST_ROWS):
                message, own = stream.waiting.popleft()
                messages.append(message)
                rows += message.count
                size += own
            stream.taking = Taking(number, tuple(messages), rows, size)
            yield stream.taking

    def durable(self, taking: Taking, receipt: IntakeReceipt) -> Ingested:
        """A change is durable: acknowledge it."""
        self._settle(taking)
        return Ingested(
            taking.stream,
            taking.first + taking.rows,
            receipt.accepted,
            receipt.quarantined,
            receipt.repeats,
            receipt.position,
            receipt.promised.outside_window,
            receipt.promised.known_from,
        )

    def failed(self, taking: Taking, refusal: StreamRefusal) -> IngestRefused:
        """A change failed: nothing of it was taken, and nothing behind it will be."""
        stream = self._settle(taking)
        self._drop_waiting(taking.stream, stream)
        stream.expected = taking.first
        return self._refuse(taking.messages[0], stream, refusal)

    def close(self) -> None:
        """The connection is gone: let go of what waits for a change. What is on its way to the log stays."""
        for number, stream in self._streams.items():
            self._drop_waiting(number, stream)

    def _settle(self, taking: Taking) -> _Stream:
        stream = self._streams[taking.stream]
        assert stream.taking is taking
        stream.taking = None
        self.rows -= taking.rows
        self.bytes -= taking.size
        if stream.waiting:
            self._ready[taking.stream] = stream
        return stream

    def _drop_waiting(self, number: int, stream: _Stream) -> None:
        for message, size in stream.waiting:
            self.rows -= message.count
            self.bytes -= size
        stream.waiting.clear()
        self._ready.pop(number, None)

    # ---- what is refused

    def _refuse(self, message: Ingest, stream: _Stream, refusal: StreamRefusal) -> IngestRefused:
        if refusal.again:
            stream.rewound = True
        else:
            stream.refused = True
            # Behind those that were refused before.
            self._streams[message.stream] = self._streams.pop(message.stream)
        return IngestRefused(message.stream, stream.expected, refusal.status, refusal.code, refusal.why, refusal.again)

    def _refusal_of_beginning(self, message: Ingest) -> StreamRefusal | None:
        if self._window is None:
            return StreamRefusal(403, "forbidden", "this connection has no window for rows; send them by REST")
        if not 1 <= len(message.source) <= LONGEST_SOURCE:
            return _bad(f"a source has 1 to {LONGEST_SOURCE} characters, this one has {len(message.source)}")
        most = self._window.streams
        if len(self._streams) > most:
            # What was sent before a refusal was heard may still arrive: such a stream is not to begin anew. Of no more
            # streams than may be busy is anything on its way, so of those that are over it is the latest.
            over = {number: one for number, one in self._streams.items() if one.refused}
            kept = {number: one for number, one in self._streams.items() if one.busy or one.rewound}
            self._streams = kept | dict([*over.items()][-most:]) | {message.stream: self._streams[message.stream]}
            busy = sum(one.busy for one in kept.values())
        else:
            busy = 0
        if busy >= most or len(self._streams) > MOST_REMEMBERED * most:
            return StreamRefusal(429, "limit", f"{most} streams of this connection have rows under way, as many as may")
        return self._check(message)

    def _refusal(self, message: Ingest, size: int, stream: _Stream) -> StreamRefusal | None:
        window = self._window
        assert window is not None
        if _origin(message) != stream.origin:
            return _bad("a stream has one table, source and time zone; begin another stream for others")
        if message.first != stream.expected:
            return _bad(f"row {stream.expected} comes next in this stream, not {message.first}")
        if message.count < 1 or message.first + message.count > LARGEST_NUMBER:
            return _bad(f"a message has one row at least, and numbers end at {LARGEST_NUMBER}")
        wrong = _wrong_shape(message)
        if wrong is not None:
            return _bad(wrong)
        if self.rows + message.count > window.rows or self.bytes + size > window.bytes:
            return StreamRefusal(
                413,
                "window",
                f"the window is {window.rows:,} rows and {window.bytes:,} bytes that are not acknowledged; "
                f"wait for acknowledgements before sending more",
            )
        if not self._room(size):
            return StreamRefusal(429, "busy", "as many rows as may are waiting on all live connections", again=True)
        return None


def _origin(message: Ingest) -> tuple[str, str, str | None]:
    return message.table, message.source, message.timezone


def _bad(why: str) -> StreamRefusal:
    return StreamRefusal(400, "bad_request", why)


def _wrong_shape(message: Ingest) -> str | None:
    """What is wrong with columns, if anything; an Arrow stream is looked at where it is read."""
    rows = message.rows
    if not isinstance(rows, ColumnRows):
        return None
    if not rows.names:
        return "rows have one column at least"
    if len(rows.names) != len(rows.values):
        return f"{len(rows.names)} names came with {len(rows.values)} columns"
    for name, values in zip(rows.names, rows.values, strict=True):
        if len(values) != message.count:
            return f"column {name[:60]!r} has {len(values)} values for {message.count} rows"
    return None
