"""Subscription handle: the current answer of one standing query, and a stream of its changes.

A program that iterates slower than changes come is handed the sum of them: the last value, the last row of each key.
It sees the state and not the backlog, and what waits for it is never more than the answer itself.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from slackwater.client.columns import Columns, DataFrame, Record
from slackwater.client.live.events import AnswerChanged, Described, Shown
from slackwater.core.errors import SlackwaterError
from slackwater.dissemination.delivery.channel import CHANNEL
from slackwater.dissemination.messages import UNICAST, WireRow

if TYPE_CHECKING:
    import pyarrow as pa


class SubscriptionService(Protocol):
    """Service behind subscriptions: the current state of each, and its removal."""

    def shown(self, ref: int) -> Shown:
        """The current state of a subscription."""
        ...

    def unsubscribe(self, ref: int) -> None:
        """It is not wanted any more."""
        ...

    def watch(self, ref: int) -> None:
        """Note that a caller waits for a change of it."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """Difference since the last change: the value of a number, or rows that entered, changed and left.

    `upserts` are rows and `deletes` the keys of rows, by column names. `as_of` is the position at which it is right; of
    a sum that is kept in parts, the position of the part that moved, in the log of its aggregator.
    """

    as_of: int
    value: float | None = None
    upserts: tuple[Record, ...] = ()
    deletes: tuple[Record, ...] = ()


class Subscription:
    """A standing query. Iterate over it for changes; read it for the current answer."""

    def __init__(self, service: SubscriptionService, ref: int, sql: str, delivery: str = UNICAST) -> None:
        self._service = service
        self._ref = ref
        self._sql = sql
        self._wanted_delivery = delivery
        self._delivery = UNICAST
        self._columns: Columns | None = None
        self._key: Columns | None = None
        self._pending: AnswerChanged | None = None
        self._news = asyncio.Event()
        self._over: SlackwaterError | None = None
        self._closed = False
        self._last: Shown | None = None
        self._waiting: list[tuple[Callable[[Shown], bool], asyncio.Future[Shown]]] = []

    def __repr__(self) -> str:
        return f"<Subscription {self._sql!r}>"

    # The current answer.

    @property
    def sql(self) -> str:
        """The statement."""
        return self._sql

    @property
    def ref(self) -> int:
        """The number under which the client knows it."""
        return self._ref

    @property
    def shown(self) -> Shown:
        """Everything that is known now, of one moment."""
        return self._service.shown(self._ref) if self._last is None else self._last

    @property
    def value(self) -> float | None:
        """The number, within `bound` of the truth at `as_of`; None for rows, over nothing, or before it has come."""
        return self.shown.value

    @property
    def rows(self) -> list[Record]:
        """The rows, as they are at `as_of`; none for a number, or before they have come."""
        held = self.shown.rows
        return [] if held is None or self._columns is None else [self._columns.record(row) for row in held.values()]

    @property
    def bound(self) -> float:
        """How far the value may be from the truth."""
        return self.shown.bound

    @property
    def as_of(self) -> int | None:
        """The position of the log at which all this is right; None before anything has come.

        It never goes back, unless the server's log was restored from a copy: `shown.incarnation` is another one then.

        None also of a sum that is kept in parts at several aggregators: `shown.positions` has theirs.
        """
        return self.shown.as_of

    @property
    def certain(self) -> bool:
        """Whether the server still vouches for it."""
        return self.shown.certain

    @property
    def why(self) -> str:
        """Why not, in a sentence; empty while `certain`."""
        return self.shown.why

    @property
    def delivery(self) -> str:
        """How its facts are delivered: `channel` where that was asked for and the server has channels, or `unicast`."""
        return self._delivery

    @property
    def columns(self) -> Columns | None:
        """Names and types of the columns; None for a number, or before the server has answered."""
        return self._columns

    def to_arrow(self) -> "pa.Table":
        """The rows as an Arrow table."""
        return self._tabular().arrow(self.rows)

    def to_pandas(self) -> DataFrame:
        """The rows as a data frame."""
        return self._tabular().pandas(self.rows)

    def _tabular(self) -> Columns:
        if self._columns is None:
            raise ValueError("there are no columns: it is one number (use value), or nothing has come yet (use ready)")
        return self._columns

    # Events.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """The next change; the first is the answer as it stands when it comes."""
        while True:
            self._news.clear()
            if self._pending is not None:
                changed, self._pending = self._pending, None
                return self._change(changed)
            if self._over is not None:
                raise self._over
            if self._closed:
                raise StopAsyncIteration
            await self._news.wait()

    async def ready(self, timeout: float | None = None) -> Self:
        """Wait for the first answer."""
        await self.wait_until(lambda shown: shown.come, timeout)
        return self

    async def reached(self, position: int, timeout: float | None = None) -> Shown:
        """Wait until what is shown is right as of a position, such as the one a receipt names.

        Not for a sum that is kept in parts at aggregators, which have positions of their own.
        """
        return await self.wait_until(lambda shown: shown.as_of is not None and shown.as_of >= position, timeout)

    async def wait_until(self, condition: Callable[[Shown], bool], timeout: float | None = None) -> Shown:
        """Wait until a condition holds of what is shown; raises TimeoutError, or what ended the subscription."""
        waiter: asyncio.Future[Shown] = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, waiter))
        self._service.watch(self._ref)
        self._look()
        try:
            async with asyncio.timeout(timeout):
                return await waiter
        finally:
            self._waiting = [one for one in self._waiting if one[1] is not waiter]

    async def close(self) -> None:
        """Want it no longer; iterations end."""
        if self._last is None:
            self._end(None)
            self._service.unsubscribe(self._ref)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # For the session alone.

    def _move(self, service: SubscriptionService, ref: int) -> None:
        """Move to another lane."""
        self._service, self._ref = service, ref

    def _described(self, described: Described) -> None:
        self._delivery = CHANNEL if described.shared else UNICAST
        if described.columns:
            columns = Columns(described.columns, described.types)
            kinds = dict(zip(columns.names, columns.types, strict=True))
            # A key column need not be among those that are shown; its type is then not known.
            self._key = Columns(described.key, tuple(kinds.get(name, "") for name in described.key))
            self._columns = columns
        else:
            self._columns = self._key = None

    def _changed(self, changed: AnswerChanged) -> None:
        self._pending = changed if self._pending is None else _sum(self._pending, changed)
        self._news.set()

    def _end(self, error: SlackwaterError | None) -> None:
        """End the subscription; the last answer stays, and is certain no longer."""
        if self._last is None:
            self._look()
            shown = self._service.shown(self._ref)
            why = "it was closed" if error is None else str(error)
            rows = None if shown.rows is None else dict(shown.rows)
            self._last = replace(shown, rows=rows, certain=False, why=why)
            self._over, self._closed = error, True
            self._news.set()
            self._look()

    def _look(self) -> bool:
        """Release the waiting callers whose condition holds; return whether any still wait."""
        if not self._waiting:
            return False
        shown = self.shown
        for condition, waiter in self._waiting:
            if waiter.done():
                continue
            try:
                if condition(shown):
                    waiter.set_result(shown)
                elif self._last is not None:
                    waiter.set_exception(self._over or SlackwaterError(f"nothing more comes of it: {shown.why}"))
            except Exception as error:
                waiter.set_exception(error)
        return True

    def _change(self, changed: AnswerChanged) -> Change:
        if self._columns is None or self._key is None:
            return Change(changed.as_of, changed.value)
        return Change(
            changed.as_of,
            None,
            tuple(self._columns.record(row) for row in changed.upserts.values()),
            tuple(self._key.record(key) for key in changed.deletes),
        )


def _sum(earlier: AnswerChanged, later: AnswerChanged) -> AnswerChanged:
    """Two changes as one."""
    upserts: dict[WireRow, WireRow] = {**earlier.upserts, **later.upserts}
    for key in later.deletes:
        upserts.pop(key, None)
    deletes = dict.fromkeys(key for key in (*earlier.deletes, *later.deletes) if key not in upserts)
    return AnswerChanged(later.ref, later.as_of, later.value, upserts, tuple(deletes))
