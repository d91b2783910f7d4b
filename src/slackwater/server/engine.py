"""The host of operators and the registrations, as a function of the log: what a serving node knows at a position.

Records go in as *steps*, events for the state of the sessions come out. A step is a run of neighbouring records of one
sort: updates, gathered by table so that each table is applied once, or whatever changes tables and registrations. So
a thousand small appends cost as little as a large one, and a query never hears of a change that came before it.

Registrations are bound when their record is reached, against the tables as they are at that position. One that does
not bind there, because its table was dropped in the same moment, is kept by nobody; dropping a table ends what stands
on it.
No I/O, no clock: a state is a function of the log and of how it was cut into steps.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from itertools import groupby

import msgspec
import pyarrow as pa

from slackwater.core.errors import SlackwaterError, StoreError
from slackwater.core.query import StandingQuery
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.log import (
    Entry,
    Quarantined,
    Registered,
    TableDefined,
    TableDropped,
    TimePassed,
    Unregistered,
    Updates,
)
from slackwater.processing.base import Answer, Notifications
from slackwater.processing.host import Host, merged
from slackwater.server.events import Applied, Event, QueryRegistered, QueryUnregistered
from slackwater.server.standing import Binder
from slackwater.server.store import Registration

STEP_ROWS = 8_192
"""Rows that are applied at once: between two steps the sockets get their turn."""
STEP_REGISTRATIONS = 256
_FORMAT = 1
_NO_QUERY = -1
"""Forgetting a query that is not there changes nothing but the position."""


class _Sort(Enum):
    """Records that can be in one step: a query must not begin and end in the same one."""

    ROWS = "rows"
    BEGIN = "begin"
    END = "end"


def _sort(entry: Entry) -> _Sort:
    match entry.record:
        case Updates() | Quarantined():
            return _Sort.ROWS
        case Unregistered() | TableDropped():
            return _Sort.END
        case _:
            return _Sort.BEGIN


class _State(msgspec.Struct):
    format: int
    generation: int
    registrations: list[tuple[int, str, str | None, str, int, int]]
    host: bytes


class NodeEngine:
    """Implements `server.events.Engine`; see the module."""

    def __init__(self) -> None:
        self.host = Host()
        self.registrations: dict[int, Registration] = {}
        self.notified: Counter[int] = Counter()
        """Notifications of each query since this process began."""
        self.notifications = 0
        self.applied_rows = 0
        self._binder = Binder()

    # ---- what the state of the sessions asks

    @property
    def position(self) -> Position:
        """The end of the last step that was applied."""
        return self.host.position

    @property
    def tables(self) -> Mapping[str, TableSchema]:
        """The tables there are."""
        return self.host.tables

    def bind(self, sql: str) -> tuple[StandingQuery, str, str | None]:
        """A subscription's query, its text in normal form without the name, and its name where it has one."""
        return self._binder.bind(sql, self.host.tables)

    def read(self, sql: str) -> None:
        """Bind a statement ahead of time, on any thread, so that binding it is quick afterwards."""
        with suppress(SlackwaterError):
            self._binder.bind(sql, dict(self.host.tables))

    def schema(self, table: str) -> TableSchema:
        """The table that a bound query reads."""
        return self.host.latest(table).schema

    def answer(self, number: int) -> Answer:
        """All that has been said of a query that is registered."""
        return self.host.answer(number)

    def named(self, name: str) -> Registration | None:
        """The registration of this name, in whatever case it is written."""
        wanted = name.lower()
        return next((one for one in self.registrations.values() if one.name and one.name.lower() == wanted), None)

    def standing_on(self, table: str) -> list[int]:
        """The numbers of the queries that read a table."""
        return sorted(number for number, query in self.host.queries.items() if query.table == table)

    # ---- records in, events out

    def steps(self, entries: Iterable[Entry]) -> Iterator[list[Event]]:
        """Apply entries step by step; what is yielded is to be handed on before the next step is taken."""
        for sort, run in groupby(entries, key=_sort):
            if sort is _Sort.ROWS:
                yield from self._rows(run)
            else:
                yield from self._others(run)

    def forget_counts(self) -> None:
        """Count from here: what was replayed was told to nobody."""
        self.notified.clear()
        self.notifications = self.applied_rows = 0

    def nothing(self) -> Notifications:
        """A step in which nothing was said."""
        return Notifications(self.position)

    def registered(self) -> list[Event]:
        """The queries that are kept now, for a state that begins here."""
        return [self._event(one) for one in self.registrations.values()]

    def _rows(self, entries: Iterable[Entry]) -> Iterator[list[Event]]:
        batches: dict[str, list[pa.RecordBatch]] = {}
        rows, end = 0, self.position
        for entry in entries:
            for piece in _pieces(entry):
                if rows and rows + piece.rows > STEP_ROWS:
                    yield [Applied(self._apply(batches, end))]
                    batches, rows = {}, 0
                end, rows = piece.end, rows + piece.rows
                if isinstance(piece.record, Updates):
                    batches.setdefault(piece.record.table, []).append(piece.record.batch)
        if rows:
            yield [Applied(self._apply(batches, end))]

    def _apply(self, batches: dict[str, list[pa.RecordBatch]], end: Position) -> Notifications:
        said = [self.host.apply(table, _joined(some), end) for table, some in batches.items()]
        if not said:
            self._pass_over(end)
        self.applied_rows += sum(batch.num_rows for some in batches.values() for batch in some)
        notifications = merged(said, end)
        self._count(notifications)
        return notifications

    def _pass_over(self, end: Position) -> None:
        """Go to a position across records that change nothing, such as refused rows."""
        self.host.unregister(_NO_QUERY, end)

    def _count(self, notifications: Notifications) -> None:
        self.notifications += len(notifications)
        if notifications.values is not None:
            self.notified.update(notifications.values.queries.tolist())
        for rows in notifications.rows:
            self.notified.update(rows.queries.tolist())

    def _others(self, entries: Iterable[Entry]) -> Iterator[list[Event]]:
        events: list[Event] = []
        said: list[Notifications] = []
        for entry in entries:
            events += self._other(entry, said)
            if len(events) >= STEP_REGISTRATIONS:
                yield [*events, Applied(merged(said, self.position))]
                events, said = [], []
        yield [*events, Applied(merged(said, self.position))]

    def _other(self, entry: Entry, said: list[Notifications]) -> list[Event]:
        end = entry.end
        match entry.record:
            case TableDefined(schema):
                self.host.define(schema, end)
                self._binder.forget()
            case TableDropped(table):
                table = next((name for name in self.host.tables if name.lower() == table.lower()), table)
                ended = [self._unregister(number, end) for number in self.standing_on(table)]
                self.host.drop(table, end)
                self._binder.forget()
                return [event for event in ended if event is not None]
            case Registered() as record:
                event = self._register(record, entry)
                return [] if event is None else [event]
            case Unregistered(_, number):
                event = self._unregister(number, end)
                return [] if event is None else [event]
            case TimePassed(time):
                notifications = self.host.advance(time, end)
                self._count(notifications)
                said.append(notifications)
            case _:
                raise StoreError(f"a node does not know what to do with a {type(entry.record).__name__} record")
        return []

    def _register(self, record: Registered, entry: Entry) -> Event | None:
        number = int(entry.first) if record.number is None else record.number
        known = self.registrations.get(number)
        if record.number is not None and (known is None or record.epoch <= known.epoch):
            # A plan that is late: the query was dropped meanwhile, or is under this plan or a later one already.
            self._pass_over(entry.end)
            return None
        if record.number is None and record.name is not None and self.named(record.name) is not None:
            # Two asked for the name at once: it is theirs who came first, on every node.
            self._pass_over(entry.end)
            return None
        try:
            query, _, _ = self.bind(record.text)
            self.host.register(number, query, entry.end)
        except SlackwaterError:
            self._pass_over(entry.end)
            return None
        self.registrations[number] = Registration(
            number, record.owner, record.name, record.text, entry.first, record.epoch
        )
        return self._event(self.registrations[number])

    def _unregister(self, number: int, end: Position) -> Event | None:
        known = self.registrations.pop(number, None)
        self.notified.pop(number, None)
        self.host.unregister(number, end)
        return None if known is None else QueryUnregistered(number)

    def _event(self, one: Registration) -> QueryRegistered:
        return QueryRegistered(one.number, one.epoch, one.text, one.owner, one.name, self.host.query(one.number))

    # ---- snapshots

    def snapshot(self, generation: int) -> bytes:
        """The whole state as bytes."""
        rows = [
            (one.number, one.owner, one.name, one.text, int(one.position), one.epoch)
            for one in self.registrations.values()
        ]
        return msgspec.msgpack.encode(_State(_FORMAT, generation, rows, self.host.snapshot()))

    def restore(self, state: bytes) -> int:
        """Become what the snapshot was taken of; returns the generation that took it."""
        try:
            plain = msgspec.msgpack.decode(state, type=_State)
        except msgspec.MsgspecError as error:
            raise StoreError(f"a snapshot cannot be read: {error}") from error
        if plain.format != _FORMAT:
            raise StoreError(f"a snapshot of format {plain.format} cannot be read; this version writes {_FORMAT}")
        self.host.restore(plain.host)
        self.registrations = {
            number: Registration(number, owner, name, text, Position(position), epoch)
            for number, owner, name, text, position, epoch in plain.registrations
        }
        return plain.generation


def _pieces(entry: Entry) -> Iterator[Entry]:
    """An entry in pieces that fit into a step."""
    record = entry.record
    assert isinstance(record, Updates | Quarantined)
    for offset in range(0, entry.rows, STEP_ROWS):
        batch = record.batch.slice(offset, STEP_ROWS)
        yield Entry(Position(entry.first + offset), type(record)(record.table, batch))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    widest = max((batch.schema for batch in batches), key=len)
    if any(not batch.schema.equals(widest) for batch in batches):
        # A column was added in between: older rows have null there.
        batches = [_widened(batch, widest) for batch in batches]
    return pa.concat_batches(batches)


def _widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
