"""Arrow request bodies: an IPC stream, validated before it is decoded.

Arrow can say much in few bytes: compressed buffers, a dictionary that a hundred thousand rows point into, views that
share one long text. Decoded, any of these could be a thousand times the size of the body. So only plain columns are
taken, as they are: then what is decoded is the body itself. Whether a message is compressed stands in its head,
which is a flatbuffer; three of its fields are all that is read here by hand.
"""

import struct
from collections.abc import Callable

import pyarrow as pa

from slackwater.core.errors import SourceError
from slackwater.core.schema import MOST_COLUMNS

_PLAIN: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_null,
    pa.types.is_decimal,
)
_RECORD_BATCH = "record batch"
_SCHEMA = "schema"
_HEADER_FIELD = 2
"""Of a Message: version, header type, header, …"""
_COMPRESSION_FIELD = 3
"""Of a RecordBatch: length, nodes, buffers, compression, …"""


def read_batches(body: bytes, most_rows: int) -> list[pa.RecordBatch]:
    """The batches of a stream; whatever is wrong with it is a `SourceError`."""
    try:
        _check_messages(body)
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            _check_schema(reader.schema)
            batches = []
            rows = 0
            for batch in reader:
                rows += batch.num_rows
                if rows > most_rows:
                    raise SourceError(f"a request may have {most_rows:,} rows; send them in parts")
                batch.validate(full=True)
                batches.append(batch)
            return batches
    except (pa.ArrowException, OSError, StopIteration, ValueError, TypeError, OverflowError, struct.error) as error:
        text = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise SourceError(f"the body is no Arrow IPC stream: {text}") from None


def _check_schema(schema: pa.Schema) -> None:
    if len(schema) > MOST_COLUMNS:
        raise SourceError(f"a row may have {MOST_COLUMNS} columns, these have {len(schema)}")
    for name, kind in zip(schema.names, schema.types, strict=True):
        if not any(plain(kind) for plain in _PLAIN):
            raise SourceError(f"column {name[:60]!r} is of type {kind}, which is not taken; send plain columns")


def _check_messages(body: bytes) -> None:
    # The messages are only looked at: without decoding, nothing can grow.
    reader = pa.MessageReader.open_stream(pa.py_buffer(body))
    seen = 0
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            break
        seen += 1
        if message.type not in (_SCHEMA, _RECORD_BATCH):
            raise SourceError(f"a {message.type} message is not taken; send plain columns without dictionaries")
        if message.type == _RECORD_BATCH and _compressed(message.metadata.to_pybytes()):
            raise SourceError("compressed buffers are not taken; write the stream without compression")
    if seen == 0:
        raise SourceError("the body is no Arrow IPC stream: it is empty")


def _compressed(head: bytes) -> bool:
    """Whether the RecordBatch in a message's head names a compression."""
    (root,) = struct.unpack_from("<I", head, 0)
    at = _field(head, root, _HEADER_FIELD)
    if at is None:
        raise SourceError("the body is no Arrow IPC stream: a message has no header")
    (offset,) = struct.unpack_from("<I", head, at)
    return _field(head, at + offset, _COMPRESSION_FIELD) is not None


def _field(head: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer's table stands; None where it is left out."""
    (back,) = struct.unpack_from("<i", head, table)
    layout = table - back
    (size,) = struct.unpack_from("<H", head, layout)
    entry = 4 + 2 * number
    if entry >= size:
        return None
    (offset,) = struct.unpack_from("<H", head, layout + entry)
    return table + offset if offset else None
