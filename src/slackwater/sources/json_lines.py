"""JSON-lines reader: one object a line; a malformed line is refused and the others arrive."""

from collections.abc import Iterable, Iterator

import numpy as np

from slackwater.core.arrival import Refusal
from slackwater.sources.base import BATCH_ROWS, LONGEST_LINE, MOST_FIELDS, FileRows, empty_batch, refuse
from slackwater.sources.file_format import TextBlocks
from slackwater.sources.json_rows import Fault, JsonRow, columns, parse

MOST_CELLS = 4_000_000
"""Rows × columns of a batch."""
_HUGE = f"longer than the {LONGEST_LINE:,} bytes allowed"


class JsonLinesReader:
    """Reads JSON-lines from a file (`TextBlocks`) or from memory (a list of bytes).

    >>> [rows] = JsonLinesReader([b'{"a": 1}\\n[2]\\n{"a": 3'], "a.jsonl").rows()
    >>> rows.batch.to_pydict(), [(r.sequence, r.reason) for r in rows.refused]
    ({'a': [1]}, [(2, 'not-an-object'), (None, 'truncated-line')])
    """

    def __init__(self, blocks: Iterable[bytes], place: str, *, batch_rows: int = BATCH_ROWS) -> None:
        self._blocks = blocks
        self._place = place
        self._batch_rows = batch_rows

    def rows(self) -> Iterator[FileRows]:
        """Yield the rows in batches; blank lines are no rows and do not count."""
        last = 0
        for rows in gather(_lines(self._blocks), self._batch_rows):
            last = max([last, *rows.numbers[-1:].tolist(), *(refusal.sequence or 0 for refusal in rows.refused)])
            yield rows
        trouble = self._blocks.trouble if isinstance(self._blocks, TextBlocks) else None
        if trouble:
            detail = f"{trouble.detail}; {last} lines came before"
            refusal = refuse(self._place, trouble.reason, detail, None)
            yield FileRows(np.empty(0, np.int64), empty_batch(), (refusal,))


def gather(texts: Iterable[tuple[bytes, bool, bool]], batch_rows: int) -> Iterator[FileRows]:
    """Parse objects and put them into batches of bounded size.

    Each text comes with whether it is whole, and whether it is too long to be looked at. Cells are counted, not
    only rows: rows that share no member make a batch of rows × rows cells.
    """
    numbers: list[int] = []
    objects: list[JsonRow] = []
    refused: list[Refusal] = []
    names: set[str] = set()
    number = 0
    for text, whole, huge in texts:
        if not text or text.isspace():
            continue
        number += 1
        row = Fault("huge-line", _HUGE) if huge else parse(text, MOST_FIELDS)
        if isinstance(row, Fault):
            torn = not whole and row.reason == "not-json"
            # A torn line keeps no number: when the file grows on, the whole line must not look like a repeat.
            refused.append(
                refuse(text, "truncated-line", row.detail, None)
                if torn
                else refuse(text, row.reason, row.detail, number)
            )
        else:
            width = len(names) if row.keys() <= names else len(names | row.keys())
            if numbers and width * (len(numbers) + 1) > MOST_CELLS:
                yield _rows(numbers, objects, refused)
                numbers, objects, refused, names = [], [], [], set()
            numbers.append(number)
            objects.append(row)
            if width > len(names):
                names.update(row)
        if len(numbers) + len(refused) >= batch_rows:
            yield _rows(numbers, objects, refused)
            numbers, objects, refused, names = [], [], [], set()
    if numbers or refused:
        yield _rows(numbers, objects, refused)


def _rows(numbers: list[int], objects: list[JsonRow], refused: list[Refusal]) -> FileRows:
    return FileRows(np.array(numbers, np.int64), columns(objects), tuple(refused))


def _lines(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool, bool]]:
    """Yield each line, whether it has its line end, and whether it was too long (then only its beginning)."""
    rest = b""
    skipping = False
    for block in blocks:
        *whole, last = block.split(b"\n")
        for index, line in enumerate(whole):
            if index == 0:
                if skipping:
                    skipping = False
                    continue
                line, rest = rest + line, b""
            yield line, True, len(line) > LONGEST_LINE
        if skipping:
            continue
        rest += last
        if len(rest) > LONGEST_LINE:
            yield rest, True, True
            rest, skipping = b"", True
    if rest and not skipping:
        yield rest, False, False
