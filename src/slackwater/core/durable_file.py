"""Sealed file format: a type mark and a checksum before the body; a damaged file is recognised as a whole."""

import hashlib

_DIGEST_BYTES = 16


def sealed(magic: bytes, body: bytes) -> bytes:
    """File content: the mark, the checksum and the body.

    >>> unsealed(b"SW", sealed(b"SW", b"body"))
    b'body'
    """
    return magic + _digest(body) + body


def unsealed(magic: bytes, content: bytes) -> bytes | None:
    """The body of such a file; None where the mark or the checksum does not match."""
    head = len(magic) + _DIGEST_BYTES
    body = content[head:]
    return body if content[:head] == magic + _digest(body) else None


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
