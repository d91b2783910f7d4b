"""Last row of each key, and hash buckets of keys: pure functions on columns.

The last row of a key is the one with the greatest (event time, source, sequence); deletions compete like any other
row. Because that is a maximum, folding is the same in any order and any grouping: a row that comes late, comes
again, or comes by another way ends in the same latest state.
"""

import zlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.arrow import EVENT_TIME, SEQUENCE, SOURCE
from slackwater.core.schema import TableSchema

Integers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


def last_rows(rows: pa.Table, table: TableSchema) -> pa.Table:
    """Of each key the row that counts, in the order in which they stand."""
    if rows.num_rows < 2:
        return rows
    keys, distinct = _codes(rows, table)
    # Where each key's last row stands, in order of rank; `order` is None where rows are in that order already.
    order = _rank_order(rows)
    last = np.full(distinct, -1, np.int64)
    np.maximum.at(last, keys if order is None else keys[order], np.arange(rows.num_rows))
    last = last[last >= 0]  # not every combination of key columns occurs
    chosen = last if order is None else order[last]
    return rows.take(pa.array(np.sort(chosen)))


def bucket_numbers(rows: pa.Table, table: TableSchema, count: int) -> Integers:
    """The bucket of each row's key, of a number of buckets that is a power of two."""
    if count == 1:
        return np.zeros(rows.num_rows, np.int64)
    mixed = np.zeros(rows.num_rows, np.uint64)
    for name in table.key:
        mixed = _mix(mixed ^ _hashes(_plain(rows.column(name))))
    return (mixed % np.uint64(count)).astype(np.int64)


def _rank_order(rows: pa.Table) -> Integers | None:
    """The rows in order of (event time, source, sequence); None if that is how they stand."""
    times = _integers(rows.column(EVENT_TIME).cast(pa.int64()))
    sequences = _integers(rows.column(SEQUENCE))
    names = _plain(rows.column(SOURCE)).dictionary_encode()
    if len(names.dictionary) > 1:
        places = np.empty(len(names.dictionary), np.int64)
        # Arrow compares text by its bytes, which in UTF-8 is the order of code points, as in Python.
        places[pc.sort_indices(names.dictionary).to_numpy()] = np.arange(len(names.dictionary))
        sources = places[names.indices.to_numpy()]
    else:
        sources = np.zeros(len(times), np.int64)
    later, same = times[1:] > times[:-1], times[1:] == times[:-1]
    same_source = same & (sources[1:] == sources[:-1])
    in_order = later | (same & (sources[1:] > sources[:-1])) | (same_source & (sequences[1:] >= sequences[:-1]))
    if in_order.all():
        return None
    return np.lexsort((sequences, sources, times))


def _codes(rows: pa.Table, table: TableSchema) -> tuple[Integers, int]:
    """A number for each row's key, from 0 to the number of keys."""
    codes, distinct = np.zeros(rows.num_rows, np.int64), 1
    for name in table.key:
        encoded = _plain(rows.column(name)).dictionary_encode()
        own = encoded.indices.to_numpy().astype(np.int64)
        codes = codes * len(encoded.dictionary) + own
        if distinct * len(encoded.dictionary) > rows.num_rows:
            found, codes = np.unique(codes, return_inverse=True)
            distinct = len(found)
        else:
            distinct *= len(encoded.dictionary)
    return codes, distinct


def _hashes(column: pa.Array) -> Hashes:
    """A hash of each cell that is the same in every process and every version: files are laid out by it."""
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode()
        texts = encoded.dictionary.cast(pa.binary()).to_pylist()
        distinct = np.fromiter((zlib.crc32(text) for text in texts), np.uint64, len(texts))
        texts_hashed: Hashes = distinct[encoded.indices.to_numpy()]
        return texts_hashed
    if pa.types.is_boolean(column.type):
        flags: Hashes = column.cast(pa.uint8()).to_numpy().astype(np.uint64)
        return flags
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    hashes: Hashes = column.to_numpy().view(np.uint64)
    return hashes


def _mix(values: Hashes) -> Hashes:
    """Spread the bits (the finaliser of SplitMix64): keys that follow each other land in different buckets."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """One array, in which zero has one sign only: 0.0 and −0.0 are the same key."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    return pc.add(array, 0.0) if pa.types.is_floating(array.type) else array


def _integers(column: pa.ChunkedArray) -> Integers:
    integers: Integers = column.to_numpy()
    return integers
