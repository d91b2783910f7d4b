"""Messages between a server and the worker processes of its one-shot queries.

A frame is a head, a message in MessagePack, and a body. Descriptors of streams travel beside the frame that names
them, in the order of the frames.

Contract (tested in `tests/server/oneshot/`)

1.  *As of one position.* All tables of a question are as the engine had them at one position, which the answer names.
2.  *Its own tables alone.* A question sees the tables it names, cut to the rights that come with it, and nothing that
    another question left: no table, no setting, no file.
3.  *An end.* A question ends within its time and memory. Where the database does not stop by itself, its process is
    killed; the answer is then an error that names the limit, and another process takes its place.
4.  *No orphans.* A worker ends with its server, however that ends.
"""

import struct
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from slackwater.core.schema import TableSchema
from slackwater.processing.columns import rows_schema

SLOT, PRESENT = "$slot", "$present"
"""Columns of a stream beside those of its table; no column of a table has a name that begins so."""
_HEAD = struct.Struct("<IQ")
HEAD_BYTES = _HEAD.size


class QuestionLimits(msgspec.Struct, frozen=True):
    """QuestionLimits of one question: seconds, bytes of memory, rows and bytes of its answer."""

    query_seconds: float
    query_memory: int
    query_rows: int
    query_bytes: int


class NewStream(msgspec.Struct, tag="stream", frozen=True):
    """The stream of a table, instead of a former one; its descriptor comes beside this."""

    number: int
    schema: list[Any]


class NoStream(msgspec.Struct, tag="forget", frozen=True):
    """A table is not asked for any more."""

    table: str


class TableRead(msgspec.Struct, frozen=True):
    """A table of a question: its stream up to here, and the region that the caller may see (None: everything)."""

    name: str
    end: int
    region: list[Any] | None = None


class AskQuestion(msgspec.Struct, tag="ask", frozen=True):
    """A question: the statement in DuckDB's words, and how its answer is to be written."""

    number: int
    statement: str
    tables: list[TableRead]
    as_of: int
    arrow: bool


class CancelQuestion(msgspec.Struct, tag="cancel", frozen=True):
    """The answer to this question is not waited for any more."""

    number: int


class WorkerReady(msgspec.Struct, tag="ready", frozen=True):
    """The worker takes questions."""


class QuestionBegun(msgspec.Struct, tag="begun", frozen=True):
    """The tables of a question are up to date: its time runs from here on."""

    number: int


class QuestionAnswered(msgspec.Struct, tag="answered", frozen=True):
    """The end of a question: the answer as the body, or why there is none."""

    number: int
    failure: str | None = None
    """Name of the class of the error."""
    message: str = ""
    seconds: float = 0.0
    """Processor time of the worker."""


ToWorker: TypeAlias = NewStream | NoStream | AskQuestion | CancelQuestion
FromWorker: TypeAlias = WorkerReady | QuestionBegun | QuestionAnswered
_TO_WORKER: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
_FROM_WORKER: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
read_to_worker = _TO_WORKER.decode
read_from_worker = _FROM_WORKER.decode


def frame(message: ToWorker | FromWorker, body_bytes: int = 0) -> bytes:
    """A message with its head; a body of so many bytes follows."""
    encoded = msgspec.msgpack.encode(message)
    return _HEAD.pack(len(encoded), body_bytes) + encoded


def read_head(head: bytes) -> tuple[int, int]:
    """Bytes of the message and of the body that follow."""
    message, body = _HEAD.unpack(head)
    return message, body


def stream_schema(table: TableSchema) -> pa.Schema:
    """The layout of a stream: the columns of the table, the slot, and whether it has a row."""
    fields = [field.with_nullable(True) for field in rows_schema(table)]
    return pa.schema([*fields, pa.field(SLOT, pa.int64()), pa.field(PRESENT, pa.bool_())])
