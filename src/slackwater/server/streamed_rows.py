"""Streamed rows: messages of an ingest stream as arrivals for the intake.

Neighbouring messages with the same columns become one arrival, so a window of single rows costs one admission. Values
are typed as in JSON rows (`sources.json_rows`): what is of one kind is a column of that kind, whole and fractional
numbers are doubles, and any other mixture is text, of which admission refuses just the cells that do not fit.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import cast

import numpy as np
import pyarrow as pa

from slackwater.core.arrival import Arrival
from slackwater.core.arrow import OPERATION, SEQUENCE, SOURCE
from slackwater.core.errors import SourceError
from slackwater.core.schema import MOST_COLUMNS
from slackwater.core.update import Operation
from slackwater.dissemination.messages import ArrowRows, ColumnRows, Ingest, WireScalar
from slackwater.server.rest.arrow_bodies import read_batches
from slackwater.sources.json_rows import columns


def arrivals(messages: Sequence[Ingest], table: str, place: str) -> list[Arrival]:
    """The rows of messages that follow one another in a stream; a `SourceError` says what is wrong with them."""
    made: list[Arrival] = []
    for names, group in groupby(messages, _layout):
        alike = list(group)
        if names is None:
            for message in alike:
                made += _of_arrow(message, table, place)
        else:
            made.append(_arrival(alike[0], _of_columns(names, alike), alike[0].first, table, place))
    return made


def _layout(message: Ingest) -> tuple[bool, tuple[str, ...]] | None:
    """Messages of one layout can be one batch; None: those of Arrow bring batches of their own."""
    return (message.deletes, message.rows.names) if isinstance(message.rows, ColumnRows) else None


def _of_columns(layout: tuple[bool, tuple[str, ...]], alike: Sequence[Ingest]) -> pa.RecordBatch:
    _, names = layout
    if len(names) > MOST_COLUMNS:
        raise SourceError(f"a row may have {MOST_COLUMNS} columns, these have {len(names)}")
    if len(set(names)) < len(names):
        raise SourceError("two columns have the same name")
    rows = [cast(ColumnRows, message.rows).values for message in alike]
    if len(rows) == 1:
        return pa.RecordBatch.from_arrays([_column(cells) for cells in rows[0]], names=list(names))
    joined = (list(chain.from_iterable(parts)) for parts in zip(*rows, strict=True))
    return pa.RecordBatch.from_arrays([_column(cells) for cells in joined], names=list(names))


def _column(cells: list[WireScalar]) -> pa.Array:
    try:
        made = pa.array(cells)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        made = None
    # Among fractional numbers Arrow takes a truth value for one.
    if made is None or (made.type == pa.float64() and bool in set(map(type, cells))):
        return columns([{"cell": cell} for cell in cells]).column(0)
    return made


def _of_arrow(message: Ingest, table: str, place: str) -> Iterator[Arrival]:
    first = message.first
    assert isinstance(message.rows, ArrowRows)
    batches = read_batches(message.rows.stream, message.count)
    rows = sum(batch.num_rows for batch in batches)
    if rows != message.count:
        raise SourceError(f"{message.count} rows were announced, and the Arrow stream has {rows}")
    for batch in batches:
        if batch.num_rows:
            yield _arrival(message, batch, first, table, place)
            first += batch.num_rows


def _arrival(message: Ingest, batch: pa.RecordBatch, first: int, table: str, place: str) -> Arrival:
    for name, why in ((SOURCE, "a stream has one source"), (SEQUENCE, "the rows of a stream are numbered by it")):
        if name in batch.schema.names:
            raise SourceError(f"{why}; leave the column {name} out")
    numbers = pa.array(np.arange(first, first + batch.num_rows))
    batch = batch.append_column(SEQUENCE, numbers)
    if message.deletes:
        if OPERATION in batch.schema.names:
            raise SourceError(f"the rows say themselves what they do ({OPERATION}); leave the deletion out")
        deletions = pa.array([int(Operation.DELETE)] * batch.num_rows, pa.int8())
        batch = batch.append_column(OPERATION, deletions)
    return Arrival(table, message.source, batch, place, rows=numbers, timezone=message.timezone)
