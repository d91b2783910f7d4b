"""Publication: one batch's notifications and initial answers from a remote host, and their encoding.

Values are the columns themselves, rows are Arrow. The bytes follow from the steps alone: the same steps of two hosts
are equal bytes.

A publication names the place in the log up to which it was made, and the edition of the publication log that it belongs
to (`publication_log`). Of publications in format 1 both are unknown, which is `FORMER`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from slackwater.core.errors import StoreError
from slackwater.core.hosts import HostKind
from slackwater.core.lineage import FORMER, Place
from slackwater.core.query import StandingQuery
from slackwater.core.rights import EVERY_ROW, Grant
from slackwater.core.schema_codec import plain_schema, schema_of
from slackwater.core.types import Position
from slackwater.hosting.step import Registration, Step
from slackwater.kinds.registry import plain_query, query_of
from slackwater.processing.base import Answer, Flags, Notifications, RowKind, Rows, Values
from slackwater.processing.concatenate import gathered
from slackwater.processing.joined import STAYS

FORMAT = 2
_WITHOUT_PLACE = 1


@dataclass(frozen=True, slots=True, eq=False)
class PublishedStep:
    """A step, and the answers of the queries that begin in it."""

    step: Step
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Publication:
    """Notifications of the positions from `start` to `end`, by one generation of the host.

    `incarnation` is that of the log at `end`.
    """

    generation: int
    start: Position
    end: Position
    steps: tuple[PublishedStep, ...]
    incarnation: int = FORMER
    edition: int = FORMER

    @property
    def place(self) -> Place:
        """The place in the log up to which it was made."""
        return Place(self.incarnation, self.end)

    @property
    def published(self) -> Place:
        """The place in the publication log where it ends."""
        return Place(self.edition, self.end)


class _PlainRows(msgspec.Struct, array_like=True):
    table: str
    queries: bytes
    places: bytes
    kinds: bytes
    slots: bytes
    rows: bytes


class _PlainAnswer(msgspec.Struct, array_like=True):
    query: int
    changed: int
    value: float | None
    rows: bytes | None


class _PlainStep(msgspec.Struct, array_like=True):
    position: int
    values: tuple[bytes, bytes, bytes] | None
    rows: list[_PlainRows]
    defined: list[Any]
    registered: list[tuple[Any, Any]]
    unregistered: list[Any]
    dropped: list[str]
    answers: list[_PlainAnswer]


class _PlainPublication(msgspec.Struct, array_like=True):
    format: int
    generation: int
    start: int
    end: int
    steps: list[_PlainStep]
    incarnation: int = FORMER
    edition: int = FORMER


def encode_steps(steps: Iterable[PublishedStep]) -> bytes:
    """Steps as bytes."""
    return _ENCODER.encode([_plain_step(one) for one in steps])


def decode_steps(body: bytes) -> tuple[PublishedStep, ...]:
    """Decode steps."""
    return tuple(_step(one) for one in msgspec.msgpack.decode(body, type=list[_PlainStep]))


def encode(publication: Publication) -> bytes:
    """A publication as bytes."""
    steps = [_plain_step(one) for one in publication.steps]
    one = publication
    return _ENCODER.encode(
        _PlainPublication(FORMAT, one.generation, one.start, one.end, steps, one.incarnation, one.edition)
    )


def decode(body: bytes) -> Publication:
    """Decode a publication."""
    try:
        plain = msgspec.msgpack.decode(body, type=_PlainPublication)
    except msgspec.MsgspecError as error:
        raise StoreError(f"a publication cannot be read: {error}") from error
    if plain.format not in (FORMAT, _WITHOUT_PLACE):
        raise StoreError(f"a publication came in format {plain.format}, this version reads {FORMAT}")
    steps = tuple(_step(one) for one in plain.steps)
    start, end = Position(plain.start), Position(plain.end)
    return Publication(plain.generation, start, end, steps, plain.incarnation, plain.edition)


def merged_steps(shards: Sequence[Sequence[PublishedStep]]) -> tuple[PublishedStep, ...]:
    """Merge the steps of several shards of one batch into those of a single host.

    All of them have cut the batch alike; tables are the same for all, queries are kept by one of them each. Of the
    pairs of a join several may have notifications.
    """
    if len({tuple(one.step.position for one in steps) for steps in shards}) > 1:
        raise StoreError("the shards of a host have cut a batch in different ways; they do not read the same log")
    return tuple(_merged(some) for some in zip(*shards, strict=True))


def _merged(some: Sequence[PublishedStep]) -> PublishedStep:
    steps = [one.step for one in some]
    registered = sorted((pair for step in steps for pair in step.registered), key=lambda pair: pair[0].position)
    unregistered = sorted((one for step in steps for one in step.unregistered), key=lambda one: one.number)
    answers = sorted((answer for one in some for answer in one.answers), key=lambda answer: answer.query)
    parts = [step.notifications for step in steps]
    values = gathered(one.values for one in parts)
    notifications = Notifications(steps[0].position, values, merged_rows([rows for one in parts for rows in one.rows]))
    step = Step(notifications, steps[0].defined, tuple(registered), tuple(unregistered), steps[0].dropped)
    return PublishedStep(step, tuple(answers))


def merged_rows(parts: Sequence[Rows]) -> tuple[Rows, ...]:
    """Rows of the same tables from several shards: in order of queries, every row that is mentioned once.

    Shards number keys alike, so the rows of each are in the same order; equal keys identify equal rows
    and nothing else needs comparing: a row of one step has one content. A pair that left one shard and entered another
    has not left: it is mentioned where it shows something new.
    """
    tables: dict[str, list[Rows]] = {}
    for part in parts:
        tables.setdefault(part.table, []).append(part)
    made = [_settled(some[0] if len(some) == 1 else _merged_rows(some)) for _, some in sorted(tables.items())]
    return tuple(rows for rows in made if len(rows))


def _merged_rows(some: Sequence[Rows]) -> Rows:
    own = [part.slots for part in some if part.slots is not None]
    slots = np.concatenate(own)
    needed, first = np.unique(slots, return_index=True)
    whole = pa.Table.from_batches([part.rows for part in some]).take(pa.array(first)).combine_chunks()
    mentioned = [ours[part.places] for ours, part in zip(own, some, strict=True)]
    places = np.searchsorted(needed, np.concatenate(mentioned))
    queries = np.concatenate([part.queries for part in some])
    kinds = np.concatenate([part.kinds for part in some])
    order = np.lexsort((places, queries))
    [rows] = whole.to_batches()
    return Rows(some[0].table, queries[order], places[order], kinds[order], rows, needed)


def _settled(rows: Rows) -> Rows:
    """Without rows of one pair by two shards that cancel out; in order of queries and rows."""
    queries, places, kinds = rows.queries, rows.places, rows.kinds
    twice: Flags = np.zeros(len(rows), np.bool_)
    twice[1:] = (queries[1:] == queries[:-1]) & (places[1:] == places[:-1])
    second = np.flatnonzero(twice)
    if not len(second) and not (kinds == STAYS).any():
        return rows
    pairs = np.stack((kinds[second - 1], kinds[second]))
    if (twice[1:] & twice[:-1]).any() or ((pairs == RowKind.DELETE).sum(axis=0) != 1).any():
        raise StoreError(
            "two shards of a host publish the same change of one pair of rows; they do not share the rows alike"
        )
    kept: Flags = ~twice
    kept[second - 1] = (pairs == RowKind.UPSERT).any(axis=0)
    kinds = np.where(kinds == STAYS, np.int8(RowKind.UPSERT), kinds)
    kinds[second - 1] = RowKind.UPSERT
    needed, places = np.unique(places[kept], return_inverse=True)
    assert rows.slots is not None
    return Rows(rows.table, queries[kept], places, kinds[kept], rows.rows.take(pa.array(needed)), rows.slots[needed])


def _plain_step(one: PublishedStep) -> _PlainStep:
    step, sent = one.step, one.step.notifications
    values = None
    if sent.values is not None:
        values = (sent.values.queries.tobytes(), sent.values.values.tobytes(), sent.values.there.tobytes())
    return _PlainStep(
        step.position,
        values,
        [_plain_rows(rows) for rows in sent.rows],
        [plain_schema(table) for table in step.defined],
        [(_plain_registration(one), plain_query(query)) for one, query in step.registered],
        [_plain_registration(one) for one in step.unregistered],
        list(step.dropped),
        [_plain_answer(answer) for answer in one.answers],
    )


def _step(plain: _PlainStep) -> PublishedStep:
    values = None
    if plain.values is not None:
        queries, numbers, there = plain.values
        values = Values(np.frombuffer(queries, np.int64), np.frombuffer(numbers), np.frombuffer(there, np.bool_))
    rows = tuple(_rows(one) for one in plain.rows)
    registered: list[tuple[Registration, StandingQuery]] = []
    for one, query in plain.registered:
        registration = _registration(one)
        registered.append((registration, query_of(query, registration.text)))
    step = Step(
        Notifications(Position(plain.position), values, rows),
        tuple(schema_of(table) for table in plain.defined),
        tuple(registered),
        tuple(_registration(one) for one in plain.unregistered),
        tuple(plain.dropped),
    )
    return PublishedStep(step, tuple(_answer(one) for one in plain.answers))


def _plain_rows(rows: Rows) -> _PlainRows:
    assert rows.slots is not None
    return _PlainRows(
        rows.table,
        rows.queries.tobytes(),
        np.asarray(rows.places, np.int64).tobytes(),
        rows.kinds.tobytes(),
        rows.slots.tobytes(),
        as_bytes(rows.rows),
    )


def _rows(plain: _PlainRows) -> Rows:
    return Rows(
        plain.table,
        np.frombuffer(plain.queries, np.int64),
        np.frombuffer(plain.places, np.int64),
        np.frombuffer(plain.kinds, np.int8),
        as_batch(plain.rows),
        np.frombuffer(plain.slots, np.int64),
    )


def _plain_registration(one: Registration) -> list[Any]:
    # Rights come last and only where there are any: without them the bytes are those of earlier versions.
    rights = [one.rights.plain()] if one.rights.regions else []
    return [one.number, one.owner, one.name, one.text, one.position, one.epoch, one.host.value, *rights]


def _registration(plain: list[Any]) -> Registration:
    number, owner, name, text, position, epoch, host, *rights = plain
    grant = Grant.read(rights[0]) if rights else EVERY_ROW
    return Registration(number, owner, name, text, Position(position), epoch, HostKind(host), grant)


def _plain_answer(one: Answer) -> _PlainAnswer:
    return _PlainAnswer(one.query, one.changed, one.value, None if one.rows is None else as_bytes(one.rows))


def _answer(plain: _PlainAnswer) -> Answer:
    rows = None if plain.rows is None else as_batch(plain.rows)
    return Answer(plain.query, Position(plain.changed), plain.value, rows)


def as_bytes(batch: pa.RecordBatch) -> bytes:
    """A batch of rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def as_batch(body: bytes) -> pa.RecordBatch:
    """Decode an Arrow stream of one batch."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        return reader.read_next_batch()


_ENCODER = msgspec.msgpack.Encoder()
