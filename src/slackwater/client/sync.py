"""Synchronous client: one event loop in a thread of its own, and blocking calls.

Everything is done by the asynchronous client; here is only the way there and back. Objects may be used from any
thread. A program that ends without closing does not hang: the thread is a daemon.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from slackwater.client.answers import Answer, Explanation, Receipt, Standing
from slackwater.client.cache.settings import Cache
from slackwater.client.client import MOST_UNACKNOWLEDGED, Client
from slackwater.client.columns import DataFrame, Record
from slackwater.client.ingest.row_forms import RowsLike
from slackwater.client.ingest.service import IngestStream
from slackwater.client.live.events import Shown
from slackwater.client.live.subscription import Change, Subscription
from slackwater.core.errors import SlackwaterError
from slackwater.dissemination.messages import ColumnRows

if TYPE_CHECKING:
    import pyarrow as pa

    from slackwater.client.cache.service import CacheService

T = TypeVar("T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="slackwater", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._thread.is_alive():
            work.close()
            raise SlackwaterError("the client is closed: make another one with slackwater.connect_sync")
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except CancelledError:
            raise SlackwaterError("the client was closed while this was waiting") from None
        except BaseException:
            # Ctrl-C while waiting: the task over there has no caller any more.
            running.cancel()
            raise

    def call(self, work: Callable[[], T]) -> T:
        async def called() -> T:
            return work()

        return self.wait(called())

    def post(self, work: Callable[[], None]) -> None:
        """Have something done, behind everything before it, and do not wait for it."""
        if not self._thread.is_alive():
            raise SlackwaterError("the client is closed: make another one with slackwater.connect_sync")
        self._loop.call_soon_threadsafe(work)

    def stop(self) -> None:
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _cancel_others() -> None:
    """Release the threads that wait for a result that will not come any more."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class SyncSubscription:
    """A standing query; iterate over it for changes, read it for the current answer. See `Subscription`."""

    def __init__(self, loop: _Loop, subscription: Subscription) -> None:
        self._loop = loop
        self._subscription = subscription

    def __repr__(self) -> str:
        return repr(self._subscription)

    @property
    def shown(self) -> Shown:
        """Everything that is known now, of one moment."""
        return self._loop.call(lambda: self._subscription.shown)

    @property
    def value(self) -> float | None:
        """The number."""
        return self.shown.value

    @property
    def rows(self) -> list[Record]:
        """The rows."""
        return self._loop.call(lambda: self._subscription.rows)

    @property
    def bound(self) -> float:
        """How far the value may be from the truth."""
        return self.shown.bound

    @property
    def as_of(self) -> int | None:
        """The position of the log at which all this is right."""
        return self.shown.as_of

    @property
    def certain(self) -> bool:
        """Whether the server still vouches for it."""
        return self.shown.certain

    @property
    def delivery(self) -> str:
        """How its facts are delivered: `channel` or `unicast`."""
        return self._loop.call(lambda: self._subscription.delivery)

    @property
    def why(self) -> str:
        """Why not."""
        return self.shown.why

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        """The next change; waits for it."""
        change = self._loop.wait(self._next())
        if change is None:
            raise StopIteration
        return change

    async def _next(self) -> Change | None:
        try:
            return await anext(self._subscription)
        except StopAsyncIteration:
            return None

    def ready(self, timeout: float | None = None) -> Self:
        """Wait for the first answer."""
        self._loop.wait(self._subscription.ready(timeout))
        return self

    def reached(self, position: int, timeout: float | None = None) -> Shown:
        """Wait until what is shown is right as of a position."""
        return self._loop.wait(self._subscription.reached(position, timeout))

    def wait_until(self, condition: Callable[[Shown], bool], timeout: float | None = None) -> Shown:
        """Wait until a condition holds of what is shown."""
        return self._loop.wait(self._subscription.wait_until(condition, timeout))

    def to_arrow(self) -> "pa.Table":
        """The rows as an Arrow table."""
        return self._loop.call(self._subscription.to_arrow)

    def to_pandas(self) -> DataFrame:
        """The rows as a data frame."""
        return self._loop.call(self._subscription.to_pandas)

    def close(self) -> None:
        """Want it no longer."""
        self._loop.wait(self._subscription.close())


class SyncIngestStream:
    """A stream of rows; use it in `with`, which waits at its end until all are durable. See `IngestStream`."""

    def __init__(self, loop: _Loop, stream: IngestStream, most: int) -> None:
        self._loop = loop
        self._stream = stream
        self._most = most
        self._next = stream.next
        self._sending = threading.Lock()

    def __enter__(self) -> Self:
        self._loop.wait(self._stream.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.wait(self._stream.__aexit__(kind, error, trace))

    @property
    def source(self) -> str:
        """The source that the rows are known by, with their numbers."""
        return self._stream.source

    @property
    def next(self) -> int:
        """Number of the next row that is sent."""
        return self._next

    @property
    def acknowledged(self) -> int:
        """All rows with numbers below this one are durable."""
        return self._stream.acknowledged

    @property
    def unacknowledged(self) -> int:
        """Rows that were sent and are not known to be durable."""
        return self._next - self._stream.acknowledged

    @property
    def live(self) -> bool:
        """True while rows go over the live connection, False where they go by requests."""
        return self._stream.live

    @property
    def receipt(self) -> Receipt:
        """Outcome of the rows that are acknowledged."""
        return self._loop.call(lambda: self._stream.receipt)

    def send(self, rows: RowsLike, *, delete: bool = False) -> int:
        """Send rows; returns the number after the last, before they are durable."""
        with self._sending:
            for piece in self._stream.pieces(rows):
                self._stream.check()
                if self.unacknowledged >= self._most:
                    self._loop.wait(self._stream.room())
                # The way to the loop and back is only made where there is something to wait for.
                self._loop.post(partial(self._stream.put, piece, delete))
                self._next += len(piece.values[0]) if isinstance(piece, ColumnRows) else piece.num_rows
            self._stream.check()
            return self._next

    def flush(self, timeout: float | None = None) -> Receipt:
        """Wait until everything that was sent is durable."""
        return self._loop.wait(self._stream.flush(timeout))

    def close(self) -> None:
        """Let go of what is not acknowledged."""
        self._loop.wait(self._stream.close())


class SyncClient:
    """The client without `async`. Made by `slackwater.connect_sync`; connected when it is made."""

    def __init__(
        self,
        urls: str | Iterable[str],
        *,
        token: str | None = None,
        wait: float = 5.0,
        patience: float = 30.0,
        bus: str | None = None,
        cache: Cache | None = None,
    ) -> None:
        self._loop = _Loop()
        try:
            self._client = self._loop.call(
                lambda: Client(urls, token=token, wait=wait, patience=patience, bus=bus, cache=cache)
            )
            self._loop.wait(self._client.__aenter__())
        except BaseException:
            self._loop.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all subscriptions, close all connections and end the thread."""
        with contextlib.suppress(SlackwaterError):
            self._loop.wait(self._client.close())
        self._loop.stop()

    def subscribe(self, sql: str, *, delivery: Literal["unicast", "channel"] = "unicast") -> SyncSubscription:
        """Want a standing query."""
        wanted = self._loop.call(lambda: self._client.subscribe(sql, delivery=delivery))
        return SyncSubscription(self._loop, wanted)

    @property
    def cache(self) -> "CacheService":
        """The cache: `.map(table)`, `.counts`."""
        return self._client.cache

    def subscriptions(self) -> list[Standing]:
        """The standing queries of the server."""
        return self._loop.wait(self._client.subscriptions())

    def query(self, sql: str, *, after: int | None = None) -> Answer:
        """Ask once."""
        return self._loop.wait(self._client.query(sql, after=after))

    def explain(self, sql: str) -> Explanation:
        """Explain a statement."""
        return self._loop.wait(self._client.explain(sql))

    def execute(self, sql: str) -> None:
        """Do a statement."""
        self._loop.wait(self._client.execute(sql))

    def ingest(
        self,
        table: str,
        rows: RowsLike,
        *,
        source: str | None = None,
        first: int | None = None,
        key: str | None = None,
        delete: bool = False,
        columns: Sequence[str] | None = None,
        timezone: str | None = None,
    ) -> Receipt:
        """Send rows."""
        return self._loop.wait(
            self._client.ingest(
                table, rows, source=source, first=first, key=key, delete=delete, columns=columns, timezone=timezone
            )
        )

    def stream(
        self,
        table: str,
        *,
        source: str | None = None,
        first: int | None = None,
        columns: Sequence[str] | None = None,
        timezone: str | None = None,
        most: int = MOST_UNACKNOWLEDGED,
    ) -> SyncIngestStream:
        """A stream of rows into a table, to be used in `with`."""

        def made() -> IngestStream:
            client = self._client
            return client.stream(table, source=source, first=first, columns=columns, timezone=timezone, most=most)

        return SyncIngestStream(self._loop, self._loop.call(made), most)


def connect_sync(
    urls: str | Iterable[str],
    *,
    token: str | None = None,
    wait: float = 5.0,
    patience: float = 30.0,
    bus: str | None = None,
    cache: Cache | None = None,
) -> SyncClient:
    """A connected client for programs without `async`; use it in `with`, or close it. See `connect`."""
    return SyncClient(urls, token=token, wait=wait, patience=patience, bus=bus, cache=cache)
