"""Codec of summaries: an Arrow IPC stream with a JSON note in the metadata of its schema.

The note under the key `slackwater` says the kind of the summary, the version of the format and the parameters. The
stream holds a row for each item. Anything that reads Arrow can look inside.
"""

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.errors import StatisticsError

NOTE = b"slackwater"
VERSION = 1
"""Raise it when what is written changes, and go on reading the older ones."""


class EncodedSummary(ABC):
    """Base of summaries that are a table and the parameters that they were made with."""

    kind: ClassVar[str]

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Constructor parameters, as values of JSON."""

    @abstractmethod
    def to_table(self) -> pa.Table:
        """A row for each item, in order of name."""

    @classmethod
    @abstractmethod
    def from_table(cls, table: pa.Table, parameters: dict[str, Any]) -> Self:
        """The summary that such a table was made of."""

    def to_bytes(self) -> bytes:
        """Everything, to be sent or kept."""
        return encode(self.to_table(), self.kind, self.parameters())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The summary that these bytes were made of."""
        table, note = decode(data, cls.kind)
        return cls.from_table(table, note["parameters"])


def annotate(table: pa.Table, note: dict[str, Any]) -> pa.Table:
    """Put a note into the metadata of a table."""
    return table.replace_schema_metadata({NOTE: json.dumps(note, separators=(",", ":")).encode()})


def noted(schema: pa.Schema, kind: str) -> dict[str, Any]:
    """Read the note of a table that should be of this kind and of a version that can be read."""
    try:
        note = json.loads((schema.metadata or {})[NOTE])
        found, version = note["kind"], note["version"]
    except (KeyError, ValueError, TypeError):
        raise StatisticsError(f"expected {kind} statistics, but what came has no note of Slackwater in it") from None
    if found != kind:
        raise StatisticsError(f"expected {kind} statistics, but came {found}")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise StatisticsError(
            f"{kind} statistics came in version {version}; this Slackwater reads up to {VERSION}: use a newer one"
        )
    return dict(note)


def encode(table: pa.Table, kind: str, parameters: dict[str, Any], **more: Any) -> bytes:
    """A table and what is to be known about it, as bytes."""
    table = annotate(table, {"kind": kind, "version": VERSION, "parameters": parameters, **more})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode(data: bytes, kind: str) -> tuple[pa.Table, dict[str, Any]]:
    """The table and the note of bytes that `encode` made."""
    try:
        with pa.ipc.open_stream(data) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise StatisticsError(f"bytes of {kind} statistics cannot be read: {error}") from None
    return table, noted(table.schema, kind)


def columns_of(records: npt.NDArray[np.void]) -> dict[str, pa.Array]:
    """The fields of records as Arrow columns; a field of several numbers becomes a list of fixed size."""
    columns: dict[str, pa.Array] = {}
    for name in records.dtype.names or ():
        field = np.ascontiguousarray(records[name])
        array = pa.array(field.reshape(-1))
        for width in reversed(field.shape[1:]):
            array = pa.FixedSizeListArray.from_arrays(array, width)
        columns[name] = array
    return columns


def records_of(table: pa.Table, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """The records that `columns_of` took apart."""
    records = np.zeros(table.num_rows, dtype)
    for name in dtype.names or ():
        if name not in table.schema.names:
            raise StatisticsError(f"statistics lack the column {name!r}")
        array = flat(table.column(name))
        while pa.types.is_fixed_size_list(array.type):
            array = array.flatten()
        field = array.to_numpy(zero_copy_only=False)
        if field.size != records[name].size:
            raise StatisticsError(f"column {name!r} of statistics has {field.size} numbers, not {records[name].size}")
        records[name] = field.reshape(records[name].shape)
    return records


def flat(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def ragged(lengths: npt.NDArray[np.int64], values: pa.Array) -> pa.Array:
    """A column of lists of these lengths."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return pa.LargeListArray.from_arrays(pa.array(offsets), values)
