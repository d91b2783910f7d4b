"""Answers of one-shot queries as bodies: JSON, or an Arrow stream."""

import msgspec
import pyarrow as pa

from slackwater.evaluator import plain_rows
from slackwater.server.rest.bodies import AnswerColumn, QueryAnswer


def arrow_body(found: pa.Table, as_of: int) -> bytes:
    """An answer as an Arrow stream; its position is told beside it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        writer.write_table(found)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def json_body(found: pa.Table, as_of: int) -> bytes:
    """An answer as JSON."""
    columns = [AnswerColumn(field.name, str(field.type)) for field in found.schema]
    return msgspec.json.encode(QueryAnswer(columns, plain_rows(found), as_of))
