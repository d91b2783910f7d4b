"""State serialisation: a MessagePack map of plain values and NumPy arrays under a header.

Equal states give equal bytes, which is how two hosts are compared; so nothing here may depend on the order of a set.
"""

from typing import Any

import msgspec
import numpy as np

from slackwater.core.errors import StoreError

VERSION = 1
"""Raise it when what is written changes, and go on reading the older ones."""

_NUMBERS = 1
_TEXTS = 2


def pack(kind: str, parts: dict[str, Any]) -> bytes:
    """Everything there is to be known of a `kind`, as bytes."""
    return _ENCODER.encode([kind, VERSION, parts])


def unpack(kind: str, state: bytes) -> dict[str, Any]:
    """Read back the argument of `pack`; arrays are writable."""
    try:
        found, version, parts = _DECODER.decode(state)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise StoreError(f"expected the state of {kind}, but the bytes cannot be read: {error}") from None
    if found != kind:
        raise StoreError(f"expected the state of {kind}, but came that of {found}")
    if version != VERSION:
        raise StoreError(
            f"the state of {kind} came in version {version}, this Slackwater reads {VERSION}; begin from the log"
        )
    return dict(parts)


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return msgspec.msgpack.Ext(_TEXTS, msgspec.msgpack.encode(value.tolist()))
        return msgspec.msgpack.Ext(_NUMBERS, msgspec.msgpack.encode((value.dtype.str, value.tobytes())))
    raise TypeError(f"{type(value).__name__} cannot be part of a state")


def _decode(code: int, body: memoryview) -> Any:
    if code == _TEXTS:
        texts = msgspec.msgpack.decode(body, type=list[str | None])
        array = np.empty(len(texts), object)
        array[:] = texts
        return array
    if code == _NUMBERS:
        dtype, cells = msgspec.msgpack.decode(body, type=tuple[str, bytes])
        if dtype not in _DTYPES:
            raise ValueError(f"an array of {dtype}")
        return np.frombuffer(cells, dtype).copy()
    raise ValueError(f"an extension of code {code}")


_DTYPES = frozenset({"|b1", "|i1", "<i8", "<f8", "<u8"})
_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode)
_DECODER = msgspec.msgpack.Decoder(ext_hook=_decode)
