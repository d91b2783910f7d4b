"""HTTP body parser: a JSON array of objects, one object, JSON-lines, or CSV as rows."""

from collections.abc import Iterator
from enum import Enum

import msgspec

from slackwater.core.errors import SourceError
from slackwater.sources.base import BATCH_ROWS, LONGEST_LINE, FileRows
from slackwater.sources.csv_file import CsvReader
from slackwater.sources.file_format import UTF8_MARK
from slackwater.sources.json_lines import JsonLinesReader, gather


class BodyFormat(Enum):
    """Format of an answer; AUTO detects it from the content type, then from the first character."""

    AUTO = "auto"
    JSON = "json"
    JSON_LINES = "jsonl"
    CSV = "csv"


class BadBody(SourceError):
    """An answer that holds no rows at all."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def body_rows(
    body: bytes,
    place: str,
    *,
    content_type: str = "",
    format: BodyFormat = BodyFormat.AUTO,
    rows_at: tuple[str, ...] = (),
) -> list[FileRows]:
    """Read an answer; rows that are none are refused one by one, an answer that is none is `BadBody`.

    >>> [rows] = body_rows(b'{"data": [{"a": 1}, 7]}', "here", rows_at=("data",))
    >>> rows.batch.to_pydict(), rows.refused[0].reason
    ({'a': [1]}, 'not-an-object')
    """
    body = body.removeprefix(UTF8_MARK)
    if not body.strip():
        return []
    found = _format(body, content_type) if format is BodyFormat.AUTO else format
    try:
        match found:
            case BodyFormat.CSV:
                return list(CsvReader([body], place).rows())
            case BodyFormat.JSON_LINES:
                return list(JsonLinesReader([body], place).rows())
            case _:
                return list(gather(_elements(body, rows_at), BATCH_ROWS))
    except BadBody:
        raise
    except SourceError as error:
        raise BadBody("bad-body", str(error)) from error
    except msgspec.MsgspecError as error:
        if format is BodyFormat.AUTO and not rows_at and b"\n" in body.strip():
            # A second object after the first: lines that were announced as plain JSON.
            rows = list(JsonLinesReader([body], place).rows())
            if any(len(part.numbers) for part in rows):
                return rows
        raise BadBody("not-json", f"the answer is not JSON: {error}") from error
    except UnicodeDecodeError as error:
        raise BadBody("wrong-encoding", f"the answer is not UTF-8: {error}") from error
    except RecursionError:
        raise BadBody("not-json", "the answer is nested too deeply") from None


def _format(body: bytes, content_type: str) -> BodyFormat:
    kind = content_type.lower()
    if "csv" in kind:
        return BodyFormat.CSV
    if any(word in kind for word in ("ndjson", "jsonl", "json-lines", "jsonlines")):
        return BodyFormat.JSON_LINES
    if "json" in kind or body.lstrip()[:1] in (b"{", b"["):
        return BodyFormat.JSON
    raise BadBody("unknown-format", f"expected JSON or CSV, not {content_type or 'an answer without content type'}")


def _elements(body: bytes, rows_at: tuple[str, ...]) -> Iterator[tuple[bytes, bool, bool]]:
    """The texts of the rows: elements of an array, or the one object; checked as JSON before the first is given."""
    for depth, name in enumerate(rows_at):
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw]) if body.lstrip()[:1] == b"{" else {}
        if name not in members:
            path = ".".join(rows_at[: depth + 1])
            raise BadBody("no-rows", f"expected rows at {'.'.join(rows_at)}, but the answer has no {path}")
        body = bytes(members[name])
    if body.lstrip()[:1] == b"[":
        elements = [bytes(raw) for raw in msgspec.json.decode(body, type=list[msgspec.Raw])]
    else:
        msgspec.json.decode(body)
        elements = [body]
    return ((element, True, len(element) > LONGEST_LINE) for element in elements)
