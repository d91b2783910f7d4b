"""Atomic durable file: readers, and a restart after a power cut, find the old content or all of the new.

`replace_file` writes beside the name, flushes, renames and flushes the folder. A sealed file also has a mark of its
format and a checksum at its head, so that a reader tells it from a damaged one.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from slackwater.core import disk
from slackwater.core.errors import StoreError

_DIGEST_BYTES = 16


def replace_file(path: Path, content: bytes, *, draft: Path | None = None) -> None:
    """Give a file new content as a whole, or leave the old one and no draft where the disk refuses.

    `draft` is a name of its own for each writer, where several may write at once.
    """
    draft = path.with_name(path.name + ".draft") if draft is None else draft
    try:
        write_draft(draft, content)
        disk.rename(draft, path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise StoreError(f"{path} cannot be written: {error}") from error


def write_draft(draft: Path, content: bytes) -> None:
    """Write a file durably under a name that no reader looks for; raises `OSError`."""
    with disk.opened(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        disk.write(descriptor, [content], 0)
        disk.sync(descriptor)


def sealed(magic: bytes, body: bytes) -> bytes:
    """The content of a file: mark, checksum, body.

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
