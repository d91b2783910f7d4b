"""Ingest state of a client, without I/O: what of its streams is sent, and what is acknowledged.

Design
    The rows of a stream are numbered once, when the program hands them over, and put into messages once. A message
    stays until the node says that its rows are durable. After a new connection everything that was not acknowledged
    is sent again, in order: rows are known by source and number, so what had been taken is counted as repeats.

    Over all streams no more is under way than the window that the node granted (`Welcome.ingest`). Streams take turns,
    message by message. One whose rows the node cannot take for now pauses, longer each time, and goes on from the row
    that the node named; others go on meanwhile.

    Rows that were sent count as under way until the node has acknowledged them or said that it let them go, as they do
    at the node: so the window is never exceeded, also not by streams that have ended.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from slackwater.core.backoff import Backoff
from slackwater.core.errors import ProtocolError
from slackwater.dissemination.messages import MESSAGE_OVERHEAD, Ingested, IngestRefused, IngestWindow

BACKOFF: Final = Backoff(50_000, most=5_000_000)
"""Microseconds that a stream pauses after refusals in a row."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows from number `first` on, as the message that carries them."""

    first: int
    count: int
    data: bytes

    @property
    def weight(self) -> int:
        """Bytes that it counts for in the window."""
        return len(self.data) + MESSAGE_OVERHEAD

    @property
    def end(self) -> int:
        """Number of the row after the last."""
        return self.first + self.count


@dataclass(slots=True)
class StreamState:
    """One stream. `waiting` is to be sent, `sent` is sent in this session and not acknowledged; both in order."""

    number: int
    durable: int
    """All rows of the stream below this number are durable."""
    waiting: deque[Batch] = field(default_factory=deque)
    sent: deque[Batch] = field(default_factory=deque)
    accepted: int = 0
    quarantined: int = 0
    repeats: int = 0
    outside_window: int = 0
    known_from: int = 0
    position: int = 0
    refused: IngestRefused | None = None
    """Reason why the stream is over."""
    refusals: int = 0
    """Refusals in a row after which it goes on."""
    abandoned: bool = False
    """True once the program has let go of it."""


class IngestState:
    """All streams of a client over one connection at a time; times are microseconds."""

    def __init__(self, jitter: Callable[[], float], backoff: Backoff = BACKOFF) -> None:
        self._jitter = jitter
        self._backoff = backoff
        self.window: IngestWindow | None = None
        """What the node of this session granted; None without a session, or where the node takes no rows."""
        self.refuses = False
        """True in a session with a node that takes no rows over live connections."""
        self.streams: dict[int, StreamState] = {}
        self.rows = 0
        self.bytes = 0
        """Rows and bytes under way, as the window counts them."""
        self._under_way = 0
        """Streams with rows under way."""
        self._turns: dict[int, None] = {}
        """Streams that have something to send, in the order of their turns."""
        self._paused: dict[int, int] = {}
        """Streams that pause, and until when."""
        self.news: set[int] = set()
        """Streams of which the program is to be told something."""

    # ---- the program

    def begin(self, number: int, first: int) -> StreamState:
        """A new stream whose rows are numbered from `first` on."""
        stream = self.streams[number] = StreamState(number, first)
        return stream

    def push(self, number: int, batch: Batch) -> None:
        """Rows to be sent, after those before."""
        stream = self.streams[number]
        stream.waiting.append(batch)
        if number not in self._paused:
            self._turns[number] = None

    def abandon(self, number: int) -> None:
        """The program has no more interest in the stream."""
        stream = self.streams[number]
        stream.abandoned = True
        stream.waiting.clear()
        self._settle(stream)

    # ---- the connection

    def opened(self, window: IngestWindow | None) -> None:
        """A session has begun; everything that is not acknowledged is to be sent in it."""
        self.window, self.refuses = window, window is None
        self._paused.clear()
        for stream in self.streams.values():
            stream.refusals = 0
            if stream.waiting:
                self._turns[stream.number] = None
        self.news.update(self.streams)

    def lost(self) -> None:
        """The session is over."""
        self.window, self.refuses = None, False
        self.rows = self.bytes = self._under_way = 0
        self._turns.clear()
        self.news.update(self.streams)
        for stream in list(self.streams.values()):
            stream.waiting.extendleft(reversed(stream.sent))
            stream.sent.clear()
            if stream.abandoned or stream.refused is not None:
                stream.waiting.clear()
                self._settle(stream)

    def received(self, message: Ingested | IngestRefused, now: int) -> None:
        """The node has said something of a stream."""
        stream = self.streams.get(message.stream)
        if stream is None:
            return
        if isinstance(message, Ingested):
            self._acknowledged(stream, message)
        else:
            self._refused(stream, message, now)
        self.news.add(stream.number)
        self._settle(stream)

    def sendable(self, now: int) -> Iterator[bytes]:
        """Messages that may be sent now."""
        self._resume(now)
        while self._turns and self.window is not None:
            number = next(iter(self._turns))
            stream = self.streams[number]
            batch = stream.waiting[0]
            if not self._fits(self.window, stream, batch):
                if self.rows:
                    return
                # It never will: this window is another one than that for which it was cut.
                why = f"a message of {batch.count} rows and {len(batch.data)} bytes exceeds the window of the node"
                self._over(stream, IngestRefused(number, batch.first, 413, "window", why, again=False))
                continue
            del self._turns[number]
            stream.waiting.popleft()
            self._under_way += not stream.sent
            stream.sent.append(batch)
            self.rows += batch.count
            self.bytes += batch.weight
            if stream.waiting:
                self._turns[number] = None
            yield batch.data

    def due(self) -> int | None:
        """When a stream that pauses goes on; None where none does."""
        return min(self._paused.values(), default=None)

    # ---- parts

    def _fits(self, window: IngestWindow, stream: StreamState, batch: Batch) -> bool:
        if len(batch.data) > window.message or (not stream.sent and self._under_way >= window.streams):
            return False
        return self.rows + batch.count <= window.rows and self.bytes + batch.weight <= window.bytes

    def _acknowledged(self, stream: StreamState, message: Ingested) -> None:
        end = stream.sent[-1].end if stream.sent else stream.durable
        if message.next > end:
            raise ProtocolError(f"rows before {message.next} were acknowledged, and {end} comes next in this stream")
        while stream.sent and stream.sent[0].end <= message.next:
            self._free(stream, stream.sent.popleft())
        stream.durable = max(stream.durable, message.next)
        stream.accepted += message.accepted
        stream.quarantined += message.quarantined
        stream.repeats += message.repeats
        stream.outside_window += message.outside_window
        stream.known_from = max(stream.known_from, message.known_from)
        stream.position = max(stream.position, message.position)
        stream.refusals = 0

    def _refused(self, stream: StreamState, message: IngestRefused, now: int) -> None:
        while stream.sent and stream.sent[-1].first >= message.next:
            batch = stream.sent.pop()
            self._free(stream, batch)
            stream.waiting.appendleft(batch)
        if stream.refused is not None:
            # It is over already; nothing is sent again.
            stream.waiting.clear()
        elif message.again:
            stream.refusals += 1
            self._paused[stream.number] = now + int(self._backoff.delay(stream.refusals, self._jitter))
            self._turns.pop(stream.number, None)
        else:
            self._over(stream, message)

    def _over(self, stream: StreamState, refused: IngestRefused) -> None:
        stream.refused = refused
        stream.waiting.clear()
        self._paused.pop(stream.number, None)
        self._turns.pop(stream.number, None)
        self.news.add(stream.number)

    def _resume(self, now: int) -> None:
        for number in [number for number, until in self._paused.items() if until <= now]:
            del self._paused[number]
            if self.streams[number].waiting:
                self._turns[number] = None

    def _free(self, stream: StreamState, batch: Batch) -> None:
        """A message that was sent is no longer under way; it is not in `sent` any more."""
        self.rows -= batch.count
        self.bytes -= batch.weight
        self._under_way -= not stream.sent

    def _settle(self, stream: StreamState) -> None:
        """Forget an abandoned stream once nothing of it is under way."""
        if stream.abandoned:
            self._turns.pop(stream.number, None)
            self._paused.pop(stream.number, None)
            if not stream.sent:
                self.streams.pop(stream.number, None)
