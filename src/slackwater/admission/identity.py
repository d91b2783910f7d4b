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

from slackwater.admission.deduplication import FIRST_ORDINAL
from slackwater.core.arrow import EVENT_TIME
from slackwater.core.schema import TableSchema

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


def own_numbers(batch: pa.RecordBatch, table: TableSchema) -> npt.NDArray[np.int64]:
    """Numbers of rows whose source gives none: by content with a time of their own, else by place in the arrival."""
    numbers = FIRST_ORDINAL + np.arange(batch.num_rows, dtype=np.int64)
    place = batch.schema.get_field_index(table.event_time or EVENT_TIME)
    if place < 0:
        return numbers
    dated = _has_value(batch.column(place))
    if dated.all():
        return by_content(batch.schema.names, batch.columns, batch.num_rows)
    if dated.any():
        own = batch.filter(pa.array(dated))
        numbers[dated] = by_content(own.schema.names, own.columns, own.num_rows)
    return numbers


def _has_value(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Which cells of a time are there; blank text is none."""
    there = pc.is_valid(column)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        blank = pc.equal(pc.ascii_trim_whitespace(column.view(pa.string())), "")
        there = pc.and_(there, pc.invert(pc.fill_null(blank, True)))
    flags: npt.NDArray[np.bool_] = there.to_numpy(zero_copy_only=False)
    return flags


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
