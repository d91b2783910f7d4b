"""Message codec: MessagePack, or the same as JSON text.

Whatever comes from outside is checked by size before it is looked at and by type while it is read. All that can be
wrong with it is a `ProtocolError`, with a sentence that may be sent back.
"""

from collections.abc import Sequence
from enum import Enum
from hashlib import blake2b
from typing import Any, Final, Protocol

import msgspec

from slackwater.core.errors import ProtocolError
from slackwater.dissemination.messages import (
    UNICAST,
    Count,
    FromClient,
    FromNode,
    Message,
    Published,
    Subscribe,
    WireRow,
)

MOST_FROM_CLIENT: Final = 1 << 20
"""Bytes of the longest message of a client: a long statement and a little more."""
MOST_FROM_NODE: Final = 1 << 28
"""Bytes of the longest message of a node: a snapshot of as many rows as a node may be told to allow."""


class Encoding(Enum):
    """How a connection writes its messages."""

    MESSAGEPACK = "msgpack"
    JSON = "json"


class _Decoder(Protocol):
    def decode(self, data: bytes, /) -> Any:
        """Read one value."""
        ...


_ENCODERS: Final[dict[Encoding, msgspec.msgpack.Encoder | msgspec.json.Encoder]] = {
    Encoding.MESSAGEPACK: msgspec.msgpack.Encoder(),
    Encoding.JSON: msgspec.json.Encoder(),
}


def _decoders(kind: Any) -> dict[Encoding, _Decoder]:
    return {Encoding.MESSAGEPACK: msgspec.msgpack.Decoder(kind), Encoding.JSON: msgspec.json.Decoder(kind)}


_FROM_CLIENT: Final = _decoders(FromClient)
_FROM_NODE: Final = _decoders(FromNode)
_PUBLISHED: Final = msgspec.msgpack.Decoder(Published)
_ROWS: Final = _decoders(list[tuple[WireRow, WireRow]])


class _UnicastSubscribe(Message, frozen=True, tag="subscribe"):
    """`Subscribe` as every server reads it: an array has no field that may be left out but by a shorter class."""

    ref: Count
    sql: str
    held: Count | None


def encode(message: Message, encoding: Encoding = Encoding.MESSAGEPACK) -> bytes:
    """Write a message.

    >>> from slackwater.dissemination.messages import Ack
    >>> encode(Ack(3, 17), Encoding.JSON)
    b'["ack",3,17,false]'
    """
    if isinstance(message, Subscribe) and message.delivery == UNICAST:
        message = _UnicastSubscribe(message.ref, message.sql, message.held)
    return _ENCODERS[encoding].encode(message)


def decode_from_client(data: bytes | str, encoding: Encoding = Encoding.MESSAGEPACK) -> FromClient:
    """Read what a client sent.

    >>> decode_from_client('["ack",3,17]', Encoding.JSON)
    Ack(sequence=3, clock=17, missing=False)
    """
    _check_size(data, MOST_FROM_CLIENT)
    try:
        message: FromClient = _FROM_CLIENT[encoding].decode(_bytes(data))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"this is not a message that clients send: {error}") from error
    return message


def decode_from_node(data: bytes | str, encoding: Encoding = Encoding.MESSAGEPACK) -> FromNode:
    """Read what a node sent."""
    _check_size(data, MOST_FROM_NODE)
    try:
        message: FromNode = _FROM_NODE[encoding].decode(_bytes(data))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"this is not a message that nodes send: {error}") from error
    return message


def decode_published(data: bytes | str) -> Published:
    """Read a message of a channel; those are MessagePack."""
    _check_size(data, MOST_FROM_NODE)
    try:
        return _PUBLISHED.decode(_bytes(data))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProtocolError(f"this is not a message of a channel: {error}") from error


def encode_rows(rows: Sequence[tuple[WireRow, WireRow]], encoding: Encoding) -> tuple[msgspec.Raw, str]:
    """Write the rows of a snapshot, each with its key, and their digest."""
    data = _ENCODERS[encoding].encode(rows)
    return msgspec.Raw(data), digest(data)


def decode_rows(rows: msgspec.Raw, expected: str, encoding: Encoding) -> list[tuple[WireRow, WireRow]]:
    """Read the rows of a snapshot, if they are those that were written."""
    data = bytes(rows)
    if digest(data) != expected:
        raise ProtocolError("the rows of a snapshot are not the ones that its digest was made of; ask for it again")
    try:
        decoded: list[tuple[WireRow, WireRow]] = _ROWS[encoding].decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ProtocolError(f"the rows of a snapshot cannot be read: {error}") from error
    return decoded


def digest(data: bytes) -> str:
    """What tells whether bytes have arrived as they were sent."""
    return blake2b(data, digest_size=16).hexdigest()


def _check_size(data: bytes | str, most: int) -> None:
    if len(data) > most:
        raise ProtocolError(f"a message may have {most} bytes, this one has {len(data)}")


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data
