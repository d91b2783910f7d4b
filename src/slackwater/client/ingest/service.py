"""Ingest stream: rows of one source for one table, sent without waiting and acknowledged when they are durable.

What a program sends in one turn of the event loop goes out as one message. Where no live connection takes the rows (a
server of an older version, one that follows a log, a token that may not read) they are sent by requests, one after the
other, and nothing else changes.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec

from slackwater.client.answers import Promised, Receipt, ReceiptBody
from slackwater.client.failures import of_refusal
from slackwater.client.ingest.row_forms import RowsLike, arrow_rows, pieces
from slackwater.client.ingest.state import Batch
from slackwater.client.live.connection import LiveSession
from slackwater.core.errors import SlackwaterError
from slackwater.dissemination.encoding import decode_from_client, encode
from slackwater.dissemination.messages import ColumnRows, Ingest, IngestRows

if TYPE_CHECKING:
    import pyarrow as pa

_MESSAGE: Final = 256 * 1024
"""Bytes of a message at most, whatever a server grants: so several are under way in a window."""
_GATHERED: Final = 1_000
"""Rows that gather until the end of a turn of the event loop, at most."""
_ARROW_ROWS: Final = 20_000
"""Rows of an Arrow batch that are written in one go: others have their turn before the next."""
_OPEN_SECONDS: Final = 5.0
"""Until a live connection that does not come about is done without."""


@dataclass(frozen=True, slots=True)
class RowRequest:
    """Rows as the body of a request, for `IngestStream` without a live connection."""

    table: str
    source: str
    first: int
    deletes: bool
    timezone: str | None
    arrow: bool
    body: bytes


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Table, source and numbering of a stream; see `Client.stream`."""

    table: str
    source: str
    first: int
    columns: Sequence[str] | None
    timezone: str | None
    most: int


class IngestStream:
    """Rows on their way; made by `Client.stream`, used in `async with`, which waits at its end until all are durable.

    One task at a time sends.
    """

    def __init__(
        self, session: LiveSession, request: Callable[[RowRequest], Awaitable[ReceiptBody]], options: StreamOptions
    ) -> None:
        self._session = session
        self._request = request
        self._options = options
        self._next = self._encoded = options.first
        self._gathered: list[ColumnRows] = []
        self._gathered_rows = 0
        self._deletes = False
        self._flushing: asyncio.Handle | None = None
        self._moved = asyncio.Event()
        self._live = True
        self._requests: deque[Batch] = deque()
        """What waits to be sent by requests."""
        self._sending: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._closed = False
        self._state = session.begin_stream(options.first, self._look)

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and not self._closed:
                await self.flush()
        finally:
            await self.close()

    # ---- what is known

    @property
    def source(self) -> str:
        """The source that the rows are known by, with their numbers."""
        return self._options.source

    @property
    def next(self) -> int:
        """Number of the next row that is sent."""
        return self._next

    @property
    def acknowledged(self) -> int:
        """All rows with numbers below this one are durable."""
        return self._state.durable

    @property
    def unacknowledged(self) -> int:
        """Rows that were sent and are not known to be durable."""
        return self._next - self._state.durable

    @property
    def live(self) -> bool:
        """True while rows go over the live connection, False where they go by requests."""
        return self._live

    @property
    def receipt(self) -> Receipt:
        """Outcome of the rows that are acknowledged."""
        state = self._state
        promised = Promised(by_number=state.accepted, outside_window=state.outside_window, known_from=state.known_from)
        return Receipt(state.accepted, state.quarantined, state.repeats, state.position, promised)

    # ---- sending

    async def send(self, rows: RowsLike, *, delete: bool = False) -> int:
        """Send rows, in any form that `Client.ingest` takes; returns the number after the last.

        Returns at once while fewer than `most` rows are not acknowledged, and waits for acknowledgements otherwise.
        """
        for piece in self.pieces(rows):
            await self.room()
            encoded = self._encoded
            self.put(piece, delete)
            if self._encoded != encoded:
                # A program that only sends leaves the loop no other turn to write what is encoded.
                await asyncio.sleep(0)
        self.check()
        return self._next

    def pieces(self, rows: RowsLike) -> Iterator["ColumnRows | pa.RecordBatch"]:
        """Rows as `put` takes them; may run on any thread."""
        for piece in pieces(rows, self._options.columns):
            if isinstance(piece, ColumnRows):
                yield piece
            else:
                for begin in range(0, piece.num_rows, _ARROW_ROWS):
                    yield piece.slice(begin, _ARROW_ROWS)

    async def room(self) -> None:
        """Wait until fewer than `most` rows are not acknowledged."""
        self.check()
        while self.unacknowledged >= self._options.most:
            self._encode_gathered()
            await self._move()

    def put(self, piece: "ColumnRows | pa.RecordBatch", delete: bool) -> None:
        """Send a piece of rows at once, whatever is not acknowledged; none after an error."""
        if self._error is not None or self._closed:
            return
        if isinstance(piece, ColumnRows):
            self._gather(piece, delete)
        else:
            self._encode_gathered()
            self._next += piece.num_rows
            self._encode_arrow(piece, delete)

    def check(self) -> None:
        """Raise what ended the stream, if it has ended."""
        if self._error is not None:
            raise self._error
        if self._closed:
            raise SlackwaterError("the stream is closed: send inside `async with client.stream(…)`")

    async def flush(self, timeout: float | None = None) -> Receipt:
        """Wait until everything that was sent is durable; returns `receipt`."""
        self.check()
        self._encode_gathered()
        async with asyncio.timeout(timeout):
            while self.unacknowledged:
                await self._move()
        self.check()
        return self.receipt

    async def close(self) -> None:
        """Let go of what is not acknowledged: it may be taken or not. `flush` before, or send it again."""
        if self._closed:
            return
        self._closed = True
        if self._flushing is not None:
            self._flushing.cancel()
        self._moved.set()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        if self._live:
            self._session.end_stream(self._state)

    # ---- messages

    def _gather(self, piece: ColumnRows, delete: bool) -> None:
        count = len(piece.values[0])
        gathered = self._gathered
        if gathered and (delete is not self._deletes or gathered[0].names != piece.names):
            self._encode_gathered()
        gathered.append(piece)
        self._deletes = delete
        self._gathered_rows += count
        self._next += count
        if self._gathered_rows >= _GATHERED:
            self._encode_gathered()
        elif self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self._encode_gathered)

    def _encode_gathered(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        gathered = self._gathered
        if not gathered or self._error is not None:
            return
        values = gathered[0].values
        if len(gathered) > 1:
            columns = zip(*[one.values for one in gathered], strict=True)
            values = tuple([list(chain.from_iterable(parts)) for parts in columns])
        rows, count = ColumnRows(gathered[0].names, values), self._gathered_rows
        gathered.clear()
        self._gathered_rows = 0
        self._encode_columns(rows, count, self._deletes)

    def _encode_columns(self, rows: ColumnRows, count: int, delete: bool) -> None:
        step = min(count, self._most_rows)
        if step == count:
            data = self._message(rows, count, delete)
            if len(data) <= self._most_bytes or count == 1:
                self._push(data, count)
                return
            step = (count + 1) // 2
        for begin in range(0, count, step):
            part = ColumnRows(rows.names, tuple([cells[begin : begin + step] for cells in rows.values]))
            self._encode_columns(part, len(part.values[0]), delete)

    def _encode_arrow(self, batch: "pa.RecordBatch", delete: bool) -> None:
        count, most = batch.num_rows, self._most_rows
        fit = int(0.9 * self._most_bytes * count / max(batch.nbytes, 1))
        rows = max(1, min(most, fit))
        for begin in range(0, count, rows):
            self._encode_part(batch.slice(begin, rows), delete)

    def _encode_part(self, batch: "pa.RecordBatch", delete: bool) -> None:
        count = batch.num_rows
        data = self._message(arrow_rows(batch), count, delete)
        if len(data) <= self._most_bytes or count == 1:
            self._push(data, count)
            return
        half = count // 2
        self._encode_part(batch.slice(0, half), delete)
        self._encode_part(batch.slice(half), delete)

    def _message(self, rows: IngestRows, count: int, delete: bool) -> bytes:
        number, first, of = self._state.number, self._encoded, self._options
        try:
            return encode(Ingest(number, of.table, of.source, first, count, rows, delete, of.timezone))
        except Exception as error:
            # Text that is no Unicode, for one. This may be called by the event loop, where only the stream can tell.
            self._error = error
            self._moved.set()
            raise

    def _push(self, data: bytes, count: int) -> None:
        batch = Batch(self._encoded, count, data)
        self._encoded += count
        if self._live:
            self._session.push(self._state, batch)
        else:
            self._requests.append(batch)
            self._send_requests()

    @property
    def _most_bytes(self) -> int:
        window = self._session.state.ingest.window
        return _MESSAGE if window is None else min(_MESSAGE, window.message)

    @property
    def _most_rows(self) -> int:
        window = self._session.state.ingest.window
        return self._options.most if window is None else max(1, min(self._options.most, window.rows // 4))

    # ---- progress

    def _look(self) -> None:
        """There is news of the stream, or of the connection."""
        state, session = self._state, self._session
        if state.refused is not None and self._error is None:
            self._error = of_refusal(state.refused.status, state.refused.code, state.refused.why)
        elif session.closed and not self._closed:
            self._error = SlackwaterError("the client was closed before all rows were acknowledged")
        elif session.state.ingest.refuses or session.over is not None:
            self._go_by_request()
        self._moved.set()

    async def _move(self) -> None:
        """Wait for news."""
        self._moved.clear()
        await self._moved.wait()
        self.check()

    async def _opened(self) -> None:
        """Wait until it is known how rows are sent."""
        self._look()
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                while self.live and self._session.state.ingest.window is None:
                    await self._move()
        except TimeoutError:
            self._go_by_request()

    # ---- requests, where there is no live connection

    def _go_by_request(self) -> None:
        if not self._live or self._closed:
            return
        self._live = False
        # Without a session nothing is under way: everything that is not acknowledged waits.
        self._requests, self._state.waiting = self._state.waiting, self._requests
        self._session.end_stream(self._state)
        self._send_requests()

    def _send_requests(self) -> None:
        if self._requests and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send_by_request())

    async def _send_by_request(self) -> None:
        while self._requests and self._error is None:
            batch = self._requests[0]
            try:
                taken = await self._request(_request(batch))
            except Exception as error:
                self._error = error
            else:
                self._requests.popleft()
                self._count(batch, taken)
            self._moved.set()

    def _count(self, batch: Batch, taken: ReceiptBody) -> None:
        state = self._state
        state.durable = batch.end
        state.accepted += taken.accepted
        state.quarantined += taken.quarantined
        state.repeats += taken.repeats
        state.outside_window += taken.promised.outside_window
        state.known_from = max(state.known_from, taken.promised.known_from)
        state.position = taken.position


def _request(batch: Batch) -> RowRequest:
    """The request that does what a message does."""
    message = decode_from_client(batch.data)
    assert isinstance(message, Ingest)
    if isinstance(message.rows, ColumnRows):
        rows = zip(*message.rows.values, strict=True)
        lines = [msgspec.json.encode(dict(zip(message.rows.names, row, strict=True))) for row in rows]
        arrow, body = False, b"\n".join(lines)
    else:
        arrow, body = True, message.rows.stream
    return RowRequest(message.table, message.source, message.first, message.deletes, message.timezone, arrow, body)
