"""CSV reader: every cell as text, unchecked; empty and unquoted means null, `""` is empty text.

A column arrives as text, or as bytes when some cell of the batch is not UTF-8: admission refuses just that row.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.csv

from slackwater.core.arrival import Refusal
from slackwater.core.errors import SourceError
from slackwater.sources.base import BATCH_ROWS, LONGEST_LINE, MOST_FIELDS, FileRows, empty_batch, refuse
from slackwater.sources.csv_records import CsvPiece, Cutter
from slackwater.sources.file_format import ReadFailure, TextBlocks


class CsvReader:
    """Reads one CSV text: from a file (`TextBlocks`) or from memory (a list of bytes).

    >>> reader = CsvReader([b"symbol,price\\nIBM,130.5\\nbad\\nMSFT,\\n"], "quotes.csv")
    >>> [rows] = reader.rows()
    >>> rows.batch.to_pydict(), rows.numbers.tolist(), rows.refused[0].reason
    ({'symbol': ['IBM', 'MSFT'], 'price': ['130.5', None]}, [1, 3], 'wrong-field-count')
    """

    def __init__(
        self,
        blocks: Iterable[bytes],
        place: str,
        *,
        delimiter: str = ",",
        names: tuple[str, ...] | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise SourceError(f"a CSV delimiter is one ASCII character and no quote, not {delimiter!r}")
        self._blocks = blocks
        self._place = place
        self._delimiter = delimiter
        self._given = names
        self._batch_rows = batch_rows

    def names(self) -> tuple[str, ...]:
        """The columns, from the header line or as given."""
        return self._open()[0]

    def rows(self) -> Iterator[FileRows]:
        """Yield the rows after the header."""
        names, blocks = self._open()
        number = 1
        for piece in Cutter(self._delimiter, len(names)).pieces(blocks):
            yield from self._convert(piece, names, number)
            number += piece.total
        trouble = self._trouble()
        if trouble:
            refusal = refuse(self._place, trouble.reason, f"{trouble.detail}; {number - 1} rows came before", None)
            yield FileRows(np.empty(0, np.int64), empty_batch(names), (refusal,))

    def _trouble(self) -> ReadFailure | None:
        return self._blocks.trouble if isinstance(self._blocks, TextBlocks) else None

    def _open(self) -> tuple[tuple[str, ...], Iterator[bytes]]:
        """The column names, and the blocks behind the header."""
        blocks = iter(self._blocks)
        if self._given is not None:
            return _checked(self._given, self._place), blocks
        head = b""
        for block in blocks:
            head += block
            header = head.lstrip(b"\r\n")
            end = _header_end(header)
            if end is not None:
                names = _names(header[:end], self._delimiter, self._place)
                return names, chain([header[end:]], blocks)
            if len(header) > LONGEST_LINE:
                raise SourceError(
                    f"the first line of {self._place} is longer than {LONGEST_LINE:,} bytes; expected a CSV header"
                )
        if not head.strip():
            trouble = self._trouble()
            why = trouble.detail if trouble else "it is empty"
            raise SourceError(f"{self._place} has no CSV header line with the names of the columns: {why}")
        return _names(head.strip(b"\r\n"), self._delimiter, self._place), iter(())

    def _convert(self, piece: CsvPiece, names: tuple[str, ...], first: int) -> Iterator[FileRows]:
        refused = tuple(
            refuse(bad.text, bad.reason, bad.detail, None if bad.torn else first + bad.index) for bad in piece.bad
        )
        if not len(piece.indices):
            if refused:
                yield FileRows(np.empty(0, np.int64), empty_batch(names), refused)
            return
        numbers = piece.indices + first
        table = self._parse(piece.data, names, piece.quoted)
        if table is None or table.num_rows != len(numbers):
            numbers, table, odd = self._one_by_one(piece, names, first)
            refused = tuple(sorted((*refused, *odd), key=_order))
        batch = _as_text(table)
        for start in range(0, max(len(numbers), 1), self._batch_rows):
            stop = min(start + self._batch_rows, len(numbers))
            # Refused rows travel with the batch that ends at or after them.
            limit = int(numbers[stop - 1]) if stop < len(numbers) else None
            now = tuple(r for r in refused if limit is None or (r.sequence is not None and r.sequence <= limit))
            refused = refused[len(now) :]
            yield FileRows(numbers[start:stop], batch.slice(start, stop - start), now)

    def _parse(self, data: bytes, names: tuple[str, ...], quoted: bool) -> pa.Table | None:
        """Let Arrow take the records apart; None when it sees something else in them than we did."""
        try:
            return pa.csv.read_csv(
                pa.BufferReader(data),
                read_options=pa.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=list(names)),
                parse_options=pa.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=quoted),
                convert_options=pa.csv.ConvertOptions(
                    check_utf8=False,
                    column_types=dict.fromkeys(names, pa.binary()),
                    strings_can_be_null=True,
                    null_values=[""],
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            return None

    def _one_by_one(
        self, piece: CsvPiece, names: tuple[str, ...], first: int
    ) -> tuple["np.typing.NDArray[np.int64]", pa.Table, tuple[Refusal, ...]]:
        """Record by record, for the rare piece in which Arrow and our cutting disagree."""
        cutter = Cutter(self._delimiter, None)
        numbers, tables, odd = [], [empty_batch(names)], []
        records = [record.group() for record in cutter.records(piece.data)]
        for index, record in zip(piece.indices, records, strict=True):
            table = self._parse(record, names, quoted=True)
            if table is not None and table.num_rows == 1:
                numbers.append(first + int(index))
                tables.append(table)
            else:
                odd.append(refuse(record, "not-csv", "cannot be taken apart into fields", first + int(index)))
        whole = pa.concat_tables(
            [pa.table(table).cast(pa.schema([(n, pa.binary()) for n in names])) for table in tables]
        )
        return np.array(numbers, np.int64), whole, tuple(odd)


def _order(refusal: Refusal) -> float:
    """By number; what has none stands at the end of the file."""
    return math.inf if refusal.sequence is None else refusal.sequence


def _header_end(text: bytes) -> int | None:
    """Where the header record ends (after its line end), or None when more bytes are needed."""
    inside, position = False, 0
    while position < len(text):
        byte = text[position]
        if byte == 34:
            inside = not inside
        elif byte in (10, 13) and not inside:
            if byte == 13 and position + 1 == len(text):
                return None
            return position + (2 if text[position : position + 2] == b"\r\n" else 1)
        position += 1
        if position > LONGEST_LINE:
            return None
    return None


def _names(header: bytes, delimiter: str, place: str) -> tuple[str, ...]:
    if b"\0" in header:
        raise SourceError(f"{place} is not CSV text: its first line holds zero bytes; say which format it is")
    try:
        text = header.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(
            f"the header of {place} is not UTF-8 text ({error}); convert the file to UTF-8 or say its format"
        ) from error
    try:
        [names] = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    except (csv.Error, ValueError) as error:
        raise SourceError(f"the header of {place} cannot be read as CSV: {error}") from error
    return _checked(tuple(name.strip() for name in names), place)


def _checked(names: tuple[str, ...], place: str) -> tuple[str, ...]:
    """Refuse duplicate column names; a column without a name gets one from its index."""
    names = tuple(name or f"column_{index}" for index, name in enumerate(names, start=1))
    if len(names) > MOST_FIELDS:
        raise SourceError(f"{place} has {len(names):,} columns; at most {MOST_FIELDS:,} can be read")
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise SourceError(
            f"{place} has more than one column called {', '.join(twice[:5])}; give the columns other names"
        )
    return names


def _as_text(table: pa.Table) -> pa.RecordBatch:
    """Bytes become text column by column, where all of them are UTF-8."""
    columns = []
    for column in table.columns:
        flat = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        try:
            columns.append(flat.cast(pa.string()))
        except pa.ArrowInvalid:
            columns.append(flat)
    return pa.RecordBatch.from_arrays(columns, names=table.column_names)
