"""Files that are whole or not there: a mark of what they are and a checksum stand at their head."""

import hashlib

_DIGEST_BYTES = 16


def sealed(magic: bytes, body: bytes) -> bytes:
    """What to write.

    >>> unsealed(b"SW", sealed(b"SW", b"body"))
    b'body'
    """
    return magic + _digest(body) + body


def unsealed(magic: bytes, content: bytes) -> bytes | None:
    """The body, or None where it is damaged or something else."""
    head = len(magic) + _DIGEST_BYTES
    body = content[head:]
    return body if content[:head] == magic + _digest(body) else None


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
