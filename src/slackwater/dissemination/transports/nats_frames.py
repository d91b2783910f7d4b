"""NATS frames: the wire format between two connection ends, each frame the payload of one NATS message.

    piece     1  flags  sequence  total   body      a message, or part of one that is too large for the bus
    status    2  ·      sequence  messages  bytes   how much was sent so far, and how much of the other's was taken
    end       3  how    sequence  reason            the last frame of this side
    seen      4                                     the other's end has arrived
    open      5  MessagePack                        a dialler asks for a connection
    accept    6  MessagePack                        it has one
    deny      7  MessagePack                        it gets none

NATS carries each message at most once, and in order for as long as nothing breaks. That is less than a transport
promises, so each direction counts its pieces: `sequence` is how many pieces came before. A piece, a status or an end
with another number than was counted here means a loss on the way.
"""

import re
import struct
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import msgspec

from slackwater.dissemination.transports.base import How, shortened

VERSION: Final = 1
LARGEST_GREETING: Final = 16 << 10
"""Bytes of an open, accept or deny."""

_PIECE, _STATUS, _END, _SEEN, _OPEN, _ACCEPT, _DENY = range(1, 8)
_PIECE_HEAD: Final = struct.Struct("<BBQI")
_STATUS_HEAD: Final = struct.Struct("<BBQQQ")
_END_HEAD: Final = struct.Struct("<BBQ")
HEAD: Final = _PIECE_HEAD.size
"""Bytes of a piece beside its body."""
_TEXT, _FIRST, _LAST = 1, 2, 4
_HOWS: Final = tuple(How)


class Unreadable(Exception):
    """A payload that is no frame; never leaves the transport."""


@dataclass(frozen=True, slots=True)
class MessagePiece:
    """A message, or part of one; `total` are the bytes of the whole."""

    sequence: int
    total: int
    text: bool
    first: bool
    last: bool
    body: bytes


@dataclass(frozen=True, slots=True)
class Status:
    """What this side has sent, and what it has taken."""

    sequence: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class End:
    """This side is done."""

    how: How
    sequence: int
    why: str


@dataclass(frozen=True, slots=True)
class EndReceived:
    """The other's end has arrived."""


_PLACE: Final = r"^slackwater\.at\.[0-9a-f]{24}\.[0-9a-f]{16}\Z"
Place: TypeAlias = Annotated[str, msgspec.Meta(pattern=_PLACE)]
"""Subject of one end. Untrusted messages can name no other subject to publish to."""
_is_place: Final = re.compile(_PLACE).match


class ConnectionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dialler asks for a connection: reply subject, limit of unread messages, and the dialler's words."""

    version: int
    answer: Place
    unread: int
    words: dict[str, str]


class Accept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The listener's side of the connection."""

    answer: Place
    unread: int


class Deny(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Refusal with a status and a body as in HTTP."""

    status: int
    body: bytes


Frame: TypeAlias = MessagePiece | Status | End | EndReceived | ConnectionRequest | Accept | Deny
_GREETINGS: Final = {_OPEN: ConnectionRequest, _ACCEPT: Accept, _DENY: Deny}
_KINDS: Final = {kind: number for number, kind in _GREETINGS.items()}


def write(frame: Frame) -> bytes:
    """A frame as bytes.

    >>> read(write(End(How.CLOSED, 7, "done")))
    End(how=<How.CLOSED: 'closed'>, sequence=7, why='done')
    """
    match frame:
        case MessagePiece(sequence, total, text, first, last, body):
            flags = _TEXT * text | _FIRST * first | _LAST * last
            return _PIECE_HEAD.pack(_PIECE, flags, sequence, total) + body
        case Status(sequence, messages, taken):
            return _STATUS_HEAD.pack(_STATUS, 0, sequence, messages, taken)
        case End(how, sequence, why):
            return _END_HEAD.pack(_END, _HOWS.index(how), sequence) + shortened(why).encode()
        case EndReceived():
            return bytes((_SEEN,))
        case _:
            return bytes((_KINDS[type(frame)],)) + msgspec.msgpack.encode(frame)


def read(payload: bytes) -> Frame:
    """Bytes as a frame; raises `Unreadable`."""
    kind = payload[0] if payload else 0
    try:
        if kind == _PIECE:
            _, flags, sequence, total = _PIECE_HEAD.unpack_from(payload)
            return MessagePiece(
                sequence, total, bool(flags & _TEXT), bool(flags & _FIRST), bool(flags & _LAST), payload[HEAD:]
            )
        if kind == _STATUS:
            return Status(*_STATUS_HEAD.unpack(payload)[2:])
        if kind == _END:
            _, how, sequence = _END_HEAD.unpack_from(payload)
            return End(_HOWS[how], sequence, shortened(payload[_END_HEAD.size :].decode()))
        if kind == _SEEN:
            return EndReceived()
        if kind in _GREETINGS and len(payload) <= LARGEST_GREETING:
            greeting: ConnectionRequest | Accept | Deny = msgspec.msgpack.decode(payload[1:], type=_GREETINGS[kind])
            return greeting
    except (struct.error, IndexError, UnicodeError, msgspec.MsgspecError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    raise Unreadable(f"a payload of {len(payload)} bytes is no frame")


def is_place(subject: str) -> bool:
    """True if a subject names a connection end of this protocol.

    >>> is_place("slackwater.at.*"), is_place("slackwater.at.0123456789abcdef01234567.0123456789abcdef")
    (False, True)
    """
    return _is_place(subject) is not None


GONE: Final = write(End(How.LOST, 0, "the peer is gone"))
"""End frame on behalf of a member that has left."""
