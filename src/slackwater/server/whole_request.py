"""Whole request: a request for rows whose head and body have come, read without a web framework.

Only what is plain is read here: `POST /v1/tables/…/rows` in HTTP/1.1, one `Host`, one `Content-Length`, each field once
and printable, nothing that changes how the body is to be read. `HeadReader` returns None for all else, and for all that
is wrong: the general protocol takes it then, and refuses it in its own way. So there is one place that answers senders
who do not keep to HTTP.
"""

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import QueryParams

_LINE = re.compile(rb"POST /v1/tables/([A-Za-z0-9_.~-]{1,128})/rows(?:\?([!-\"$-~]*))? HTTP/1\.1\r\n")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_LENGTH = re.compile(r"[0-9]{1,12}")
_GENERAL = frozenset({"transfer-encoding", "expect", "upgrade", "te", "trailer", "content-encoding"})
"""Fields of requests that are left to the general protocol."""
_MOST_KNOWN = 256
"""Field blocks that are remembered: a sender repeats its own, but for the length."""
_LONGEST_KNOWN = 1024


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a head by name in small letters, and the length of the body."""

    headers: dict[str, str]
    length: int


@dataclass(frozen=True, slots=True)
class RequestHead:
    """Head of a request: `body_at` is where its body begins, `end` where the request ends."""

    table: str
    query: str
    fields: Fields
    body_at: int

    @property
    def end(self) -> int:
        """Bytes of the whole request."""
        return self.body_at + self.fields.length


@dataclass(frozen=True, slots=True)
class WholeRequest:
    """A request with its body, as far as an operation asks; the names are those of Starlette."""

    path_params: dict[str, str]
    query_params: QueryParams
    headers: dict[str, str]
    content: bytes
    scope: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, head: RequestHead, content: bytes, scope: dict[str, Any]) -> "WholeRequest":
        """Put head and body together."""
        return cls({"table": head.table}, _parameters(head.query), head.fields.headers, content, scope)


class HeadReader:
    """Reads heads, and remembers the fields that it has read."""

    def __init__(self) -> None:
        self._known: dict[bytes, Fields] = {}

    def read(self, data: bytes) -> RequestHead | None:
        """The head at the beginning of what came; None where it is not complete, or not plain."""
        line = _LINE.match(data)
        if line is None:
            return None
        begin, end = line.end(), data.find(b"\r\n\r\n", line.end() - 2)
        if end < begin:
            return None
        block = data[begin:end]
        fields = self._known.get(block) or self._fields(block)
        if fields is None:
            return None
        table, query = line.groups()
        return RequestHead(table.decode("ascii"), (query or b"").decode("ascii"), fields, end + 4)

    def _fields(self, block: bytes) -> Fields | None:
        fields = read_fields(block)
        if fields is not None and len(block) <= _LONGEST_KNOWN:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[block] = fields
        return fields


def read_fields(block: bytes) -> Fields | None:
    """The fields of a head, if all of them are plain.

    >>> read_fields(b"Host: a\\r\\nContent-Length: 3")
    Fields(headers={'host': 'a', 'content-length': '3'}, length=3)
    >>> read_fields(b"Host: a\\r\\nContent-Length: 3\\r\\nTransfer-Encoding: chunked") is None
    True
    """
    try:
        text = block.decode("ascii")
    except UnicodeDecodeError:
        return None
    headers: dict[str, str] = {}
    for line in text.split("\r\n"):
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if not (colon and _NAME.fullmatch(name) and value.isprintable()) or name in headers or name in _GENERAL:
            return None
        headers[name] = value
    length = headers.get("content-length", "")
    if not headers.get("host") or not _LENGTH.fullmatch(length):
        return None
    if headers.get("connection", "keep-alive").lower() != "keep-alive":
        return None
    return Fields(headers, int(length))


def _parameters(query: str) -> QueryParams:
    if "%" in query or "+" in query:
        return QueryParams(parse_qsl(query, keep_blank_values=True))
    pairs = (part.partition("=") for part in query.split("&") if part)
    return QueryParams([(name, value) for name, _, value in pairs])
