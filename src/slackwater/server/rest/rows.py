"""REST of rows: ingestion, and the quarantine."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from http import HTTPStatus

import msgspec
import numpy as np
import pyarrow as pa
from starlette.responses import Response

from slackwater.core.arrival import Arrival, Refusal, RequestKey
from slackwater.core.arrow import OPERATION, SEQUENCE, SOURCE
from slackwater.core.errors import SourceError
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.core.update import Operation
from slackwater.intake import Promises
from slackwater.log import Quarantined
from slackwater.server.rest.arrow_bodies import read_batches
from slackwater.server.rest.bodies import PromisesAnswer, QuarantineAnswer, QuarantinedRow, ReceiptAnswer
from slackwater.server.rest.errors import RequestRefused
from slackwater.server.rest.operation import (
    ARROW,
    JSON,
    JSON_LINES,
    Call,
    Parameter,
    RestOperation,
    answered,
    unsupported,
    wrong,
)
from slackwater.server.rest.tables import TABLE
from slackwater.server.store import Scope
from slackwater.sources.json_lines import JsonLinesReader
from slackwater.sources.times import check_timezone
from slackwater.sources.typed_json import reader_of

KEY_HEADER = "Idempotency-Key"
_LARGEST_FIRST = 2**61
_INLINE = 128 * 1024
"""Bytes that are parsed at once; larger bodies are parsed on a thread, so that other requests need not wait."""
_EMPTY = pa.RecordBatch.from_arrays([], names=[])
_OPERATIONS = {"upsert": Operation.UPSERT, "delete": Operation.DELETE}


async def send_rows(call: Call) -> Response:
    """Ingest rows."""
    schema = call.table(call.path("table"))
    table = schema.name
    call.node.engine.check_rows(table)
    kind = call.media_type()
    if kind not in (JSON_LINES, ARROW):
        raise unsupported(JSON_LINES, ARROW)
    source = call.text("source", f"rest/{call.caller.name}")
    assert source is not None
    first = call.integer("first", None, 0, _LARGEST_FIRST)
    operation = call.text("operation", "upsert")
    if operation not in _OPERATIONS:
        raise wrong("operation must be upsert or delete")
    timezone = call.text("timezone")
    if timezone is not None:
        try:
            check_timezone(timezone)
        except SourceError as error:
            raise wrong(str(error)) from None
    key = call.header(KEY_HEADER)
    body = await call.body(call.limits.body)
    blank = Arrival(table, source, _EMPTY, f"POST by {call.caller.name}", timezone=timezone)

    def parse() -> list[Arrival]:
        if kind == ARROW:
            made = _from_arrow(body, blank, first, call)
        elif operation == "delete":
            # Nearly all cells are missing, and admission looks at each row.
            made = _from_lines(body, blank, first)
        else:
            made = _from_json(body, blank, first, schema)
        return [_deleting(arrival) for arrival in made] if operation == "delete" else made

    request = None if key is None else RequestKey(key, _digest(kind, first, operation, timezone, body=body))
    arrivals = parse() if len(body) <= _INLINE else await asyncio.to_thread(parse)
    rows = sum(arrival.batch.num_rows + len(arrival.refused) for arrival in arrivals)
    if rows > call.limits.rows:
        raise RequestRefused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "limit", f"a request may have {call.limits.rows:,} rows, not {rows:,}"
        )
    receipt = await call.node.ingest(arrivals, request, max(rows, 1))
    return answered(
        ReceiptAnswer(
            receipt.accepted,
            receipt.quarantined,
            receipt.repeats,
            receipt.position,
            [name[:128] for name in receipt.ignored_columns[:100]],
            _promised(receipt.promised),
            receipt.request_repeated,
        )
    )


def _promised(of: Promises) -> PromisesAnswer:
    return PromisesAnswer(
        of.by_number, of.by_request, of.by_content, of.at_least_once, of.outside_window, of.known_from
    )


def _digest(kind: str, *said: object, body: bytes) -> bytes:
    """What an idempotency key stands for: the body, and how it is read."""
    head = msgspec.json.encode((kind, *said))
    return hashlib.blake2b(head + b"\n" + body, digest_size=16).digest()


def _from_json(body: bytes, blank: Arrival, first: int | None, table: TableSchema) -> list[Arrival]:
    """Rows decoded by the schema of their table where they are as they should be, else line by line."""
    # Rows with a time and without a number are known by what they say, as it came.
    batches = None if first is None and table.event_time is not None else reader_of(table).read(body, first)
    if batches is None:
        return _from_lines(body, blank, first)

    @cache
    def line_by_line() -> list[Arrival]:
        return _from_lines(body, blank, first)

    return [
        Arrival(
            blank.table,
            blank.source,
            batch,
            blank.place,
            timezone=blank.timezone,
            original=partial(_at, line_by_line, nth),
        )
        for nth, batch in enumerate(batches)
    ]


def _at(arrivals: Callable[[], list[Arrival]], nth: int) -> Arrival:
    return arrivals()[nth]


def _from_lines(body: bytes, blank: Arrival, first: int | None) -> list[Arrival]:
    arrivals = []
    for rows in JsonLinesReader([body], blank.place).rows():
        batch = rows.batch
        if first is not None:
            batch = batch.append_column(SEQUENCE, pa.array(rows.numbers + (first - 1), pa.int64()))
        refused = tuple(replace(one, sequence=_number(one, first)) for one in rows.refused)
        arrivals.append(replace(blank, batch=batch, rows=pa.array(rows.numbers, pa.int64()), refused=refused))
    return arrivals


def _number(refusal: Refusal, first: int | None) -> int | None:
    """A refused row keeps its number only where the sender numbers its rows."""
    return None if first is None or refusal.sequence is None else refusal.sequence + first - 1


def _from_arrow(body: bytes, blank: Arrival, first: int | None, call: Call) -> list[Arrival]:
    try:
        batches = read_batches(body, call.limits.rows)
    except SourceError as error:
        raise wrong(str(error)) from None
    arrivals = []
    for batch in batches:
        if SOURCE in batch.schema.names:
            raise wrong(f"a request has one source, given in its address; leave the column {SOURCE} out")
        if first is not None:
            if SEQUENCE in batch.schema.names:
                raise wrong(f"the rows have numbers of their own ({SEQUENCE}); leave first out")
            numbers = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
            batch, first = batch.append_column(SEQUENCE, numbers), first + batch.num_rows
        if batch.num_rows:
            arrivals.append(replace(blank, batch=batch))
    return arrivals


def _deleting(arrival: Arrival) -> Arrival:
    if OPERATION in arrival.batch.schema.names:
        raise wrong(f"the rows say themselves what they do ({OPERATION}); leave operation out")
    if arrival.batch.num_columns == 0:
        return arrival
    deletions = pa.array(np.full(arrival.batch.num_rows, int(Operation.DELETE), np.int8))
    return replace(arrival, batch=arrival.batch.append_column(OPERATION, deletions))


async def list_quarantine(call: Call) -> Response:
    """Look at refused rows."""
    table = call.table(call.path("table")).name
    limit = call.integer("limit", 100, 1, call.limits.quarantine_rows) or 100
    start = call.integer("start", None, 0, 2**62)
    log = call.node.log
    held_from, end = await call.node.log_span()
    if start is None:
        # The latest ones are what people look for first.
        start = max(int(held_from), end - call.limits.quarantine_positions)
    if start > end:
        raise wrong(f"the log ends at {end}; start must not lie behind it")
    begin = Position(start)

    def look() -> QuarantineAnswer:
        found: list[QuarantinedRow] = []
        stop = Position(min(end, begin + call.limits.quarantine_positions))
        for entry in log.read(begin, stop):
            if isinstance(entry.record, Quarantined) and entry.record.table == table:
                for offset, row in enumerate(entry.record.batch.to_pylist()):
                    found.append(_quarantined(entry.first + offset, row))
                    if len(found) == limit:
                        return QuarantineAnswer(found, begin, found[-1].position + 1, end)
        return QuarantineAnswer(found, begin, stop, end)

    return answered(await asyncio.to_thread(look))


def _quarantined(position: int, row: dict[str, object]) -> QuarantinedRow:
    sequence = row[SEQUENCE]
    return QuarantinedRow(
        position,
        str(row["row"]),
        str(row["reason"]),
        str(row["detail"]),
        str(row["place"]),
        str(row["at"]),
        str(row[SOURCE]),
        sequence if isinstance(sequence, int) else None,
    )


SEND_ROWS = RestOperation(
    "POST",
    "/v1/tables/{table}/rows",
    "sendRows",
    "Send rows, as JSON lines or as an Arrow IPC stream. When the answer comes they are durable. "
    "With `first` or the header Idempotency-Key, sending the same again changes nothing.",
    send_rows,
    Scope.INGEST,
    {200: {JSON: ReceiptAnswer}},
    takes={JSON_LINES: None, ARROW: None},
    parameters=(
        TABLE,
        Parameter(
            "source",
            "Who sends: rows are known by their source and number. The token's name if left out.",
            {"type": "string", "minLength": 1, "maxLength": 128},
        ),
        Parameter(
            "first",
            "The number of the first row; the others follow. Without it a row with an event time is known by what "
            "it says, and any other is taken each time it comes.",
            {"type": "integer", "minimum": 0, "maximum": _LARGEST_FIRST},
        ),
        Parameter(
            "operation",
            "What the rows do; a row to be deleted needs its key columns only.",
            {"type": "string", "enum": list(_OPERATIONS)},
        ),
        Parameter(
            "timezone",
            "The zone of times that carry none, as Europe/Vienna.",
            {"type": "string", "minLength": 1, "maxLength": 128},
        ),
        Parameter(
            KEY_HEADER,
            "The same request under the same key is taken once: of each source and table, for 24 hours.",
            {"type": "string", "minLength": 1, "maxLength": 128},
            in_header=True,
        ),
    ),
    fails=frozenset({404, 409, 422}),
)

OPERATIONS = (
    SEND_ROWS,
    RestOperation(
        "GET",
        "/v1/tables/{table}/quarantine",
        "listQuarantine",
        "List rows that were refused, and why.",
        list_quarantine,
        Scope.READ,
        {200: {JSON: QuarantineAnswer}},
        parameters=(
            TABLE,
            Parameter("limit", "At most so many rows.", {"type": "integer", "minimum": 1, "maximum": 1000}),
            Parameter(
                "start",
                "Look from this position of the log on; near its end if left out.",
                {"type": "integer", "minimum": 0, "maximum": 2**62},
            ),
        ),
        fails=frozenset({404, 410}),
    ),
)
