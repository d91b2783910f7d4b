"""Row identity: a content hash as the sequence number of rows whose source gives none.

Two rows of one source with the same number are the same row. Files are numbered by the reader (file and row),
pollers by the moment of fetching. What is left and brings an event time of its own is known by its content: the same
cells at the same time are the same fact. The number is a hash of all cells, negative so that it cannot be taken for a
row's own number, and not below −2⁶²: numbers below are arrival ordinals of rows without any identity.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_HASH_BYTES = 8


def by_content(names: Sequence[str], columns: Sequence[pa.Array], rows: int) -> npt.NDArray[np.int64]:
    """Number rows by a hash of their cells; the order of the columns does not matter, their names do."""
    order = sorted(range(len(names)), key=lambda position: names[position])
    texts = [_as_bytes(columns[position]).to_pylist() for position in order]
    header = "\x1f".join(names[position] for position in order).encode()
    hashes = np.empty(rows, np.int64)
    for row in range(rows):
        digest = hashlib.blake2b(header, digest_size=_HASH_BYTES)
        for column in texts:
            cell = column[row]
            # Length first, so that ("ab", "c") and ("a", "bc") differ; a null is not an empty cell.
            digest.update(b"-" if cell is None else b"%d:" % len(cell))
            digest.update(cell or b"")
        hashes[row] = _negative(digest.digest())
    return hashes


def of_text(text: str) -> int:
    """The number of something that is only text.

    >>> of_text("a") == of_text("a") < 0
    True
    """
    return _negative(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_HASH_BYTES).digest())


def _negative(digest: bytes) -> int:
    return -1 - (int.from_bytes(digest, "big") >> 2)


def of_former(hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers of contents that a former version hashed to one bit more."""
    return -1 - ((-1 - hashes) >> 1)


def _as_bytes(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_nested(column.type):
        return pa.array([None if cell is None else repr(cell).encode() for cell in column.to_pylist()], pa.binary())
    if pa.types.is_binary(column.type):
        return column
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_binary(), safe=False)
    return pc.cast(column, pa.string()).cast(pa.binary())
