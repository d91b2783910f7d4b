"""Query engine: operators and registrations as a deterministic function of the log.

Records go in, *steps* come out. A step is a run of neighbouring records of one sort: updates, gathered by table so that
each table is applied once, or whatever changes tables and registrations. So a thousand small appends cost as little
as a large one, and a query never hears of a change that came before it. A tick of the log clock is a step by itself: it
ends exactly there, and what operators say of the time is in it, however the log is cut.

A registration carries its query as it was bound when it was asked for. One that does not fit the tables at its
position, because they were dropped in the same moment, is ignored; dropping a table ends the queries on it.

Several engines may partition the queries of a log: a predicate selects those of each. All of them know all tables and
all registrations, and give keys the same slots, so notifications are equal bytes for every partition. They may
partition the rows of joins as well: then each has a `ShardPart`, and attends to the joins of the others.
No I/O, no clock: a state is a function of the log and of how it was cut into steps.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from itertools import groupby
from typing import TypeAlias

import msgspec
import pyarrow as pa

from slackwater.core.errors import SlackwaterError, StoreError
from slackwater.core.hosts import HostKind
from slackwater.core.query import StandingQuery
from slackwater.core.rights import EVERY_ROW, Grant
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.hosting.binder import Binder
from slackwater.hosting.registrations import Registrations
from slackwater.hosting.step import Registration, Step
from slackwater.kinds.registry import conjoin, kept_as, query_of
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
from slackwater.processing.host import Host
from slackwater.processing.joined import LineSample, ShardPart
from slackwater.processing.joined.sample import some_of
from slackwater.sql.explain_tree import Detail, ExplainTree

STEP_ROWS = 8_192
"""Rows of one step; the event loop serves sockets between two steps."""
STEP_REGISTRATIONS = 256
QUICK_STATEMENT = 4_096
"""Characters of a statement that are bound in an instant, once its like was read."""
_FORMAT = 3
_NO_QUERY = -1
"""Number of no query: to unregister it changes the position alone."""

Keeps: TypeAlias = Callable[[Registration], bool]


def on_node(one: Registration) -> bool:
    """True for the queries that the node itself runs."""
    return one.host is HostKind.NODE


class _Sort(Enum):
    """Records that can be in one step: a query must not begin and end in the same one."""

    ROWS = "rows"
    BEGIN = "begin"
    END = "end"
    TICK = "tick"


def _sort(entry: Entry) -> _Sort:
    match entry.record:
        case Updates() | Quarantined():
            return _Sort.ROWS
        case Unregistered() | TableDropped():
            return _Sort.END
        case TimePassed():
            return _Sort.TICK
        case _:
            return _Sort.BEGIN


class _EngineState(msgspec.Struct):
    format: int
    generation: int
    registrations: list[msgspec.Raw]
    host: bytes


class QueryEngine:
    """State of a host: operators, tables and registrations at a position; see the module."""

    def __init__(self, keeps: Keeps = on_node, part: ShardPart | None = None) -> None:
        self.host = Host()
        self.host.spread(part)
        self.keeps = keeps
        self._part = part
        self._standing = Registrations()
        self.changed: set[int] = set()
        """Numbers of registrations, of all hosts, that changed since the consumer last cleared this set."""
        self.planned: set[int] = set()
        """The same for queries planned over a network; the planner clears it."""
        self.applied_rows = 0
        self._binder = Binder()

    @property
    def registry(self) -> Registrations:
        """Registrations in force, of all hosts."""
        return self._standing

    @property
    def registrations(self) -> Mapping[int, Registration]:
        """All registrations in force, of all hosts."""
        return self._standing.all

    @property
    def position(self) -> Position:
        """The end of the last step that was applied."""
        return self.host.position

    @property
    def tables(self) -> Mapping[str, TableSchema]:
        """The tables there are."""
        return self.host.tables

    @property
    def tick_periods(self) -> frozenset[int]:
        """Microseconds between the ticks that any registered query needs, on any host."""
        return self._standing.periods

    def query(self, number: int) -> StandingQuery:
        """The query of a registration that is in force."""
        return self._standing.query(number)

    def bind(self, sql: str) -> tuple[StandingQuery, str, str | None]:
        """A subscription's query, its text in normal form without the name, and its name where it has one."""
        return self._binder.bind(sql, self.host.tables)

    def read(self, sql: str) -> None:
        """Bind a statement ahead of time, on any thread, so that binding it is quick afterwards.

        For the first join all that matching needs is compiled as well: that, too, can take long.
        """
        with suppress(SlackwaterError):
            self.host.warm_up(kept_as(self._binder.bind(sql, dict(self.host.tables))[0]))

    def is_quick(self, sql: str) -> bool:
        """True if a statement can be bound in an instant, because it or its like was read before."""
        return len(sql) <= QUICK_STATEMENT and self._binder.knows(sql)

    def check_size(self, query: StandingQuery) -> None:
        """Refuse a query whose answer or state is too large, whatever its host."""
        kept = kept_as(query)
        self.host.check_size(kept)
        if len(kept.tables) > 1:
            self.host.check_families(kept, self._standing.families(self.host.family))

    def cold(self, query: StandingQuery) -> bool:
        """True while kernels are to be compiled before a query can be registered quickly."""
        return self.host.cold(kept_as(query))

    def settle(self) -> None:
        """Build indexes over all queries, so that the next one registers quickly; `restore` leaves them out."""
        self._standing.families(self.host.family)
        self.host.settle()

    def explain(self, query: StandingQuery, host: HostKind) -> ExplainTree | None:
        """EXPLAIN of a query's operators on this host, also before registration."""
        tree = self.host.explain(kept_as(query))
        if tree is None or host is HostKind.NODE:
            return tree
        return ExplainTree(tree.name, (Detail("operators", "elsewhere: this server does not see how they match"),))

    def named(self, name: str) -> Registration | None:
        """The registration of this name, in whatever case it is written."""
        return self._standing.named(name)

    def standing_on(self, table: str) -> list[int]:
        """The numbers of the queries that read a table, on all hosts."""
        return sorted(self._standing.on_table(table))

    def share(self, keeps: Keeps, part: ShardPart | None = None) -> list[Answer]:
        """Change the partition of queries; answers of queries that are new here are exact at this moment.

        The partition of the rows of joins may change as well: it causes no notifications.
        """
        answers = []
        for number, one in self.registrations.items():
            if self.keeps(one) and not keeps(one):
                self.host.unregister(number, self.position)
            elif keeps(one) and not self.keeps(one):
                answers.append(self.host.register(number, self.held(self.query(number)), self.position))
        self.keeps, self._part = keeps, part
        self._spread()
        return answers

    def _spread(self) -> None:
        """Attend to the joins of other engines that this shard has a part in."""
        self.host.spread(self._part)
        if self._part is not None:
            for number in self._standing.on_several_tables():
                if self._attends(self.registrations[number]) and not self.host.attends(number):
                    self.host.attend(number, self.held(self.query(number)), self.position)

    def survey(self, shards: int) -> list[LineSample]:
        """Statistics of the rows and joins of all shards; without sharding, of this engine's joins alone."""
        others = [
            number
            for number in self._standing.on_several_tables()
            if self.registrations[number].host is HostKind.SPARK and not self.host.attends(number)
        ]
        return self.host.survey(shards, [self.held(self.query(number)) for number in some_of(others, len(others))])

    def _attends(self, one: Registration) -> bool:
        return self._part is not None and one.host is HostKind.SPARK and not self.keeps(one)

    # ---- records in, steps out

    def steps(self, entries: Iterable[Entry]) -> Iterator[Step]:
        """Apply entries step by step; the caller delivers each step before it takes the next."""
        for sort, run in groupby(entries, key=_sort):
            if sort is _Sort.ROWS:
                yield from self._rows(run)
            elif sort is _Sort.TICK:
                yield from self._ticks(run)
            else:
                yield from self._others(run)

    def nothing(self) -> Notifications:
        """A step without notifications."""
        return Notifications(self.position)

    def kept(self) -> list[tuple[Registration, StandingQuery]]:
        """The registrations of this engine's queries."""
        return [(one, self.query(one.number)) for one in self.registrations.values() if self.keeps(one)]

    def _rows(self, entries: Iterable[Entry]) -> Iterator[Step]:
        batches: dict[str, list[pa.RecordBatch]] = {}
        rows, end = 0, self.position
        for entry in entries:
            for piece in _pieces(entry):
                if rows and rows + piece.rows > STEP_ROWS:
                    yield Step(self._apply(batches, end))
                    batches, rows = {}, 0
                end, rows = piece.end, rows + piece.rows
                if isinstance(piece.record, Updates):
                    batches.setdefault(piece.record.table, []).append(piece.record.batch)
        if rows:
            yield Step(self._apply(batches, end))

    def _ticks(self, entries: Iterable[Entry]) -> Iterator[Step]:
        for entry in entries:
            assert isinstance(entry.record, TimePassed)
            yield Step(self.host.advance(entry.record.time, entry.end))

    def _apply(self, batches: dict[str, list[pa.RecordBatch]], end: Position) -> Notifications:
        # In the order of names: the notifications of several engines for one step can then be merged.
        notifications = self.host.apply_all({table: _joined(some) for table, some in batches.items()}, end)
        self.applied_rows += sum(batch.num_rows for some in batches.values() for batch in some)
        return notifications

    def _pass_over(self, end: Position) -> None:
        """Go to a position across records that change nothing, such as refused rows."""
        self.host.unregister(_NO_QUERY, end)

    def _others(self, entries: Iterable[Entry]) -> Iterator[Step]:
        made = _StepBuilder()
        for entry in entries:
            self._other(entry, made)
            if made.size >= STEP_REGISTRATIONS:
                yield made.step(self.position)
                made = _StepBuilder()
        yield made.step(self.position)

    def _other(self, entry: Entry, made: "_StepBuilder") -> None:
        end = entry.end
        match entry.record:
            case TableDefined(schema):
                self.host.define(schema, end)
                self._binder.forget()
                made.defined.append(schema)
            case TableDropped(table):
                table = next((name for name in self.host.tables if name.lower() == table.lower()), table)
                for number in self.standing_on(table):
                    self._unregister(number, end, made)
                self.host.drop(table, end)
                self._binder.forget()
                made.dropped.append(table)
            case Registered() as record:
                self._register(record, entry, made)
            case Unregistered(_, number):
                self._unregister(number, end, made)
            case _:
                raise StoreError(f"a host does not know what to do with a {type(entry.record).__name__} record")

    def _register(self, record: Registered, entry: Entry, made: "_StepBuilder") -> None:
        number = int(entry.first) if record.number is None else record.number
        known = self.registrations.get(number)
        if record.number is not None and (known is None or record.epoch <= known.epoch):
            # A plan that is late: the query was dropped meanwhile, or is under this plan or a later one already.
            self._pass_over(entry.end)
            return
        if record.number is None and record.name is not None and self.named(record.name) is not None:
            # Two clients registered the name at once: the first in the log has it, on every node.
            self._pass_over(entry.end)
            return
        rights = EVERY_ROW if isinstance(record.rights, msgspec.UnsetType) else Grant.read(record.rights)
        one = Registration(
            number,
            record.owner,
            record.name,
            record.text,
            entry.first,
            record.epoch,
            HostKind(record.host),
            rights,
        )
        try:
            query = (
                conjoin(self.bind(record.text)[0], rights)
                if record.query is None
                else query_of(record.query, record.text)
            )
            # Checked on every host: all engines of a log must know the same registrations.
            self.check_size(query)
            if self.keeps(one):
                self.host.register(number, self.held(query), entry.end)
            elif not (self._attends(one) and self.host.attend(number, self.held(query), entry.end)):
                self.host.foresee(kept_as(query), entry.end)
                if self._part is not None and self.host.attends(number):
                    # Until now it was a query whose rows are spread.
                    self.host.unregister(number, entry.end)
        except SlackwaterError:
            self._pass_over(entry.end)
            return
        self._standing.add(one, query, self.host.family(kept_as(query)))
        self._note(one)
        made.size += 1
        if self.keeps(one):
            made.registered.append((one, query))

    def _note(self, one: Registration) -> None:
        self.changed.add(one.number)
        if one.host is HostKind.NETWORK:
            self.planned.add(one.number)

    def held(self, query: StandingQuery) -> StandingQuery:
        """The query that the operators register; a host that needs part of the bound for itself overrides this."""
        return kept_as(query)

    def _unregister(self, number: int, end: Position, made: "_StepBuilder") -> None:
        known = self._standing.pop(number)
        self.host.unregister(number, end)
        if known is not None:
            self._note(known)
            made.size += 1
            if self.keeps(known):
                made.unregistered.append(known)

    # ---- snapshots

    def snapshot(self, generation: int = 0) -> bytes:
        """The whole state as bytes."""
        return msgspec.msgpack.encode(_EngineState(_FORMAT, generation, self._standing.plain(), self.host.snapshot()))

    def restore(self, state: bytes) -> int:
        """Load a snapshot; returns the generation that wrote it."""
        try:
            plain = msgspec.msgpack.decode(state, type=_EngineState)
        except msgspec.MsgspecError as error:
            raise StoreError(f"a snapshot cannot be read: {error}") from error
        if plain.format != _FORMAT:
            raise StoreError(f"a snapshot of format {plain.format} cannot be read; this version writes {_FORMAT}")
        self.host.restore(plain.host)
        self._standing = Registrations.of(plain.registrations)
        self._spread()
        return plain.generation


class _StepBuilder:
    """Builder of a step of registrations."""

    def __init__(self) -> None:
        self.defined: list[TableSchema] = []
        self.registered: list[tuple[Registration, StandingQuery]] = []
        self.unregistered: list[Registration] = []
        self.dropped: list[str] = []
        self.size = 0
        """Registrations that changed, of all hosts: engines that share a log must cut it alike."""

    def step(self, position: Position) -> Step:
        """The finished step."""
        return Step(
            Notifications(position),
            tuple(self.defined),
            tuple(self.registered),
            tuple(self.unregistered),
            tuple(self.dropped),
        )


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
