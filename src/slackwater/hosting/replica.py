"""Replica of a remote host's answers: tables, registrations and values, advanced by publications.

A new subscriber gets the values last *sent*; the truth is known to the operators alone. So a server of the queries of
another host needs no operators, only this replica.

It keeps its place in the log, and its place in the publication log: an edition and the same position.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from slackwater.core.errors import SlackwaterError, StoreError
from slackwater.core.lineage import FORMER, Place
from slackwater.core.query import AnswerShape, StandingQuery
from slackwater.core.schema import TableSchema
from slackwater.core.schema_codec import plain_schema, schema_of
from slackwater.core.types import Key, Position, Row
from slackwater.hosting.publication import Publication, PublishedStep
from slackwater.hosting.registrations import Registrations
from slackwater.hosting.step import Registration
from slackwater.kinds.registry import answer_schema, answer_table
from slackwater.processing.base import Answer, RowKind, Rows
from slackwater.processing.columns import python_rows, python_values, rows_schema

_FORMAT = 3
_WITHOUT_PLACE = 2


class _ReplicaState(msgspec.Struct, array_like=True):
    format: int
    generation: int
    position: int
    tables: list[Any]
    registrations: list[msgspec.Raw]
    values: list[tuple[int, int, float | None]]
    rows: list[tuple[int, int, list[tuple[Any, ...]]]]
    incarnation: int = FORMER
    edition: int = FORMER


class Replica:
    """All published answers up to a position."""

    def __init__(self) -> None:
        self.position = Position(0)
        self.generation = 0
        self.incarnation = FORMER
        self.edition = FORMER
        self.tables: dict[str, TableSchema] = {}
        self._standing = Registrations()
        self._queries: dict[int, StandingQuery] = {}
        self._values: dict[int, tuple[Position, float | None]] = {}
        self._rows: dict[int, dict[Key, Row]] = {}
        self._changed: dict[int, Position] = {}

    @property
    def place(self) -> Place:
        """Its place in the log."""
        return Place(self.incarnation, self.position)

    @property
    def published(self) -> Place:
        """Its place in the publication log."""
        return Place(self.edition, self.position)

    @property
    def registry(self) -> Registrations:
        """The registry of those in force."""
        return self._standing

    @property
    def registrations(self) -> Mapping[int, Registration]:
        """Those in force by number."""
        return self._standing.all

    @property
    def queries(self) -> Mapping[int, StandingQuery]:
        """The queries in force by number."""
        return self._queries

    def apply(self, publication: Publication) -> None:
        """Apply a publication; it must follow on the one before."""
        self.follow(publication)
        for published in publication.steps:
            self.step(published)
        self.position = publication.end

    def follow(self, publication: Publication) -> None:
        """Check that a publication is the next one, and of no host that was replaced."""
        if publication.start != self.position:
            raise StoreError(
                f"the publication begins at position {publication.start} where {self.position} was next; "
                f"a part of it is missing"
            )
        if publication.generation < self.generation:
            raise StoreError(
                f"generation {publication.generation} of a host publishes, though {self.generation} has taken over"
            )
        self.generation = publication.generation
        # The place of each of its steps is valid under the incarnation of its end.
        self.incarnation, self.edition = publication.incarnation, publication.edition

    def step(self, published: PublishedStep) -> None:
        """Apply one step."""
        step = published.step
        for table in step.defined:
            self._define(table)
        for one, query in step.registered:
            self._forget(one.number)
            self._standing.add(one, query)
            self._queries[one.number] = query
        for answer in published.answers:
            self._answered(answer)
        for one in step.unregistered:
            self._forget(one.number)
        for name in step.dropped:
            self.tables.pop(name, None)
        self.position = step.position
        values = step.notifications.values
        if values is not None:
            for number, value, there in zip(
                values.queries.tolist(), values.values.tolist(), values.there.tolist(), strict=True
            ):
                self._values[number] = (step.position, value if there else None)
        for rows in step.notifications.rows:
            self._apply_rows(rows)

    def answer(self, number: int) -> Answer:
        """The published answer of a query."""
        query = self._queries[number]
        if query.shape is AnswerShape.NUMBER:
            changed, value = self._values[number]
            return Answer(number, changed, value)
        layout = rows_schema(self.schema(answer_table(query)))
        rows = list(self._rows[number].values())
        columns = zip(*rows, strict=True) if rows else [()] * len(layout)
        arrays = [_array(column, field.type) for column, field in zip(columns, layout, strict=True)]
        return Answer(number, self._changed[number], rows=pa.RecordBatch.from_arrays(arrays, schema=layout))

    def schema(self, name: str) -> TableSchema:
        """Schema of a table, or of the answers of joins by this name."""

        def known(table: str) -> TableSchema:
            if table not in self.tables:
                raise SlackwaterError(f"rows of table {table} came, which is not there")
            return self.tables[table]

        return answer_schema(name, known)

    def value(self, number: int) -> float | None:
        """The value last published of an aggregate."""
        return self._values[number][1]

    # ---- bytes

    def snapshot(self) -> bytes:
        """Encode the replica."""
        return msgspec.msgpack.encode(
            _ReplicaState(
                _FORMAT,
                self.generation,
                self.position,
                [plain_schema(table) for table in self.tables.values()],
                self._standing.plain(),
                [(number, int(changed), value) for number, (changed, value) in self._values.items()],
                [(number, int(self._changed[number]), list(rows.values())) for number, rows in self._rows.items()],
                self.incarnation,
                self.edition,
            )
        )

    @classmethod
    def restore(cls, state: bytes) -> "Replica":
        """Decode a replica."""
        try:
            plain = msgspec.msgpack.decode(state, type=_ReplicaState)
        except msgspec.MsgspecError as error:
            raise StoreError(f"published answers cannot be read: {error}") from error
        if plain.format not in (_FORMAT, _WITHOUT_PLACE):
            raise StoreError(f"published answers came in format {plain.format}, this version reads {_FORMAT}")
        made = cls()
        made.generation, made.position = plain.generation, Position(plain.position)
        made.incarnation, made.edition = plain.incarnation, plain.edition
        made.tables = {table.name: table for table in map(schema_of, plain.tables)}
        made._standing = Registrations.of(plain.registrations)
        made._queries = {number: made._standing.query(number) for number in made._standing.all}
        made._values = {number: (Position(changed), value) for number, changed, value in plain.values}
        for number, changed, rows in plain.rows:
            table = made.schema(answer_table(made._queries[number]))
            made._rows[number] = {table.key_of(row): row for row in rows}
            made._changed[number] = Position(changed)
        return made

    # ---- the parts of it

    def _define(self, table: TableSchema) -> None:
        former = self.tables.get(table.name)
        self.tables[table.name] = table
        if former is None or len(former.columns) == len(table.columns):
            return
        more = (None,) * (len(table.columns) - len(former.columns))
        for number, rows in self._rows.items():
            query = self._queries[number]
            if table.name in query.tables:
                # Of a join the columns of the right table come after those of the left; both may be this one.
                first, last = query.tables[0] == table.name, query.tables[-1] == table.name
                end = len(former.columns) if len(query.tables) > 1 and first else None
                self._rows[number] = {
                    key: (
                        *row[:end],
                        *more,
                        *(() if end is None else row[end:]),
                        *(more if end is not None and last else ()),
                    )
                    for key, row in rows.items()
                }

    def _answered(self, answer: Answer) -> None:
        number = answer.query
        query = self._queries.get(number)
        if query is None:
            raise StoreError(f"an answer of query {number} came, which was never registered")
        if query.shape is AnswerShape.ROWS:
            assert answer.rows is not None
            table = self.schema(answer_table(query))
            self._rows[number] = {table.key_of(row): row for row in python_rows(answer.rows)}
            self._changed[number] = answer.changed
        else:
            self._values[number] = (answer.changed, answer.value)

    def _apply_rows(self, changes: Rows) -> None:
        table = self.schema(changes.table)
        columns = [python_values(column) for column in changes.rows.columns]
        rows: list[Row] = list(zip(*columns, strict=True))
        # Keys by column, not row by row: of joins there are very many pairs. Those of a host are never null.
        keys: list[Key] = list(zip(*(columns[table.index(name)] for name in table.key), strict=True))
        for number, place, kind in zip(
            changes.queries.tolist(), changes.places.tolist(), changes.kinds.tolist(), strict=True
        ):
            if kind == RowKind.UPSERT:
                self._rows[number][keys[place]] = rows[place]
            else:
                self._rows[number].pop(keys[place], None)
            self._changed[number] = self.position

    def _forget(self, number: int) -> None:
        self._standing.pop(number)
        for kept in (self._queries, self._values, self._rows, self._changed):
            kept.pop(number, None)


def _array(column: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(column, pa.int64()).cast(kind)
    return pa.array(column, kind)
