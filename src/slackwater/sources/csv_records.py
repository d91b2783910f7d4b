"""Cutting CSV bytes into records, so that one bad record costs one record.

Design
    Arrow's CSV reader is fast but gives up for good on a line longer than its block, numbers rows only in some
    modes, and lets an unclosed quote swallow the rest of a file. So records are cut here, checked for their number of
    fields, and only good ones go to Arrow.

    A quote has meaning only at the beginning of a field (as in Arrow): `5" pipe` is a plain field. Inside quotes,
    a doubled quote is a quote, and delimiters and line ends are text. A line ends with LF, CR LF or CR.

    Blocks without a quote and without a lone CR, which is nearly all of them, are cut with NumPy; others by a
    regular expression with possessive repeats, which cannot backtrack and so takes linear time.

    A record that is still open after `longest` bytes, or at the end of the file, was opened by a stray quote: its
    first *line* is refused and cutting goes on with the next line.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.sources.base import LONGEST_LINE

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that is no row: which number it has among the records of its piece, and what is wrong."""

    index: int
    text: bytes
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Good records as CSV bytes, the index of each among all records of the piece, and the bad ones."""

    data: bytes
    indices: npt.NDArray[np.int64]
    total: int
    bad: tuple[Bad, ...]
    quoted: bool


class Cutter:
    """Cuts blocks of bytes into pieces of whole records with `fields` fields each (None: any number)."""

    def __init__(self, delimiter: str, fields: int | None, longest: int = LONGEST_LINE) -> None:
        self._fields = fields
        self._longest = longest
        self._delimiter = delimiter.encode()
        mark = re.escape(self._delimiter)
        field = rb'(?:"(?:[^"]++|"")*+"[^%b\r\n]*+|[^"%b\r\n][^%b\r\n]*+|)' % (mark, mark, mark)
        self._record = re.compile(rb"(%b(?:%b%b)*+)(?:\r\n|\n|\r)" % (field, mark, field))
        self._quoted_field = re.compile(rb'(^|%b)"(?:[^"]++|"")*+"' % mark)

    def pieces(self, blocks: Iterable[bytes]) -> Iterator[Piece]:
        """Cut the blocks; the last record needs no line end."""
        rest = b""
        skipping = False
        for block in blocks:
            if skipping:
                end = _LINE_END.search(block)
                if end is None:
                    continue
                block, skipping = block[end.end() :], False
            piece, rest, skipping = self._cut(rest + block, final=False)
            yield piece
        if rest:
            ended = rest.endswith((b"\n", b"\r"))
            piece, _, _ = self._cut(rest if ended else rest + b"\n", final=True, torn=not ended)
            yield piece

    def records(self, data: bytes) -> Iterator[re.Match[bytes]]:
        """Every record of bytes that hold only whole, well-formed ones."""
        return (match for match in self._record.finditer(data) if match.group(1))

    def _cut(self, data: bytes, *, final: bool, torn: bool = False) -> tuple[Piece, bytes, bool]:
        """Cut what is whole; return it, the rest, and whether the rest of a huge line is still to be skipped."""
        plain = b'"' not in data and data.count(b"\r") == data.count(b"\r\n")
        starts, ends, after, bad, used, skipping = self._plain(data) if plain else self._careful(data, final=final)
        if plain and len(data) - used > self._longest:
            starts = np.append(starts, used)
            ends = np.append(ends, len(data))
            after = np.append(after, len(data))
            used, skipping = len(data), True
        kept = (ends > starts) | np.isin(starts, list(bad))
        starts, ends, after = starts[kept], ends[kept], after[kept]
        trouble = self._trouble(data, starts, ends, bad, torn)
        good = np.ones(len(starts), np.bool_)
        good[list(trouble)] = False
        piece = Piece(
            data=_gather(data, starts, after, good, used if kept.all() else None),
            indices=np.flatnonzero(good),
            total=len(starts),
            bad=tuple(
                Bad(index, data[starts[index] : ends[index]], reason, detail)
                for index, (reason, detail) in sorted(trouble.items())
            ),
            quoted=not plain,
        )
        return piece, data[used:], skipping

    def _plain(self, data: bytes) -> "_Cuts":
        octets = np.frombuffer(data, np.uint8)
        newlines = np.flatnonzero(octets == 10)
        if not len(newlines):
            none = np.empty(0, np.int64)
            return none, none, none, {}, 0, False
        after = newlines + 1
        starts = np.concatenate(([0], after[:-1]))
        before = octets[np.maximum(newlines - 1, 0)]
        ends = newlines - ((before == 13) & (newlines > starts))
        return starts, ends, after, {}, int(after[-1]), False

    def _careful(self, data: bytes, *, final: bool) -> "_Cuts":
        starts, ends, after = [], [], []
        bad: dict[int, tuple[str, str]] = {}
        position, skipping = 0, False
        while position < len(data):
            match = self._record.match(data, position)
            if match and (final or match.end() < len(data) or data[-1:] == b"\n"):
                starts.append(position)
                ends.append(match.end(1))
                position = match.end()
                after.append(position)
                continue
            if not final and len(data) - position <= self._longest:
                break
            # Still open: a stray quote, or one line without end.
            starts.append(position)
            end = _LINE_END.search(data, position)
            ends.append(end.start() if end else len(data))
            bad[position] = _UNCLOSED if data.find(b'"', position, ends[-1]) >= 0 else _HUGE
            skipping = end is None
            position = end.end() if end else len(data)
            after.append(position)
        whole = [np.array(places, np.int64) for places in (starts, ends, after)]
        return whole[0], whole[1], whole[2], bad, position, skipping

    def _trouble(
        self,
        data: bytes,
        starts: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        bad: dict[int, tuple[str, str]],
        torn: bool,
    ) -> dict[int, tuple[str, str]]:
        """Which records are no rows, by index."""
        trouble = {int(np.searchsorted(starts, start)): why for start, why in bad.items()}
        for index in np.flatnonzero(ends - starts > self._longest):
            trouble[int(index)] = _HUGE
        if self._fields is None:
            return trouble
        counts = self._counts(data, starts, ends)
        for index in np.flatnonzero(counts != self._fields):
            last = torn and index == len(starts) - 1
            reason = "truncated-line" if last else "wrong-field-count"
            detail = f"{counts[index]} fields where {self._fields} were expected"
            trouble.setdefault(int(index), (reason, detail))
        return trouble

    def _counts(self, data: bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How many fields each record has."""
        marks = np.flatnonzero(np.frombuffer(data, np.uint8) == self._delimiter[0])
        counts = np.searchsorted(marks, ends) - np.searchsorted(marks, starts) + 1
        if b'"' in data:
            quotes = np.flatnonzero(np.frombuffer(data, np.uint8) == 34)
            for index in np.flatnonzero(np.searchsorted(quotes, ends) > np.searchsorted(quotes, starts)):
                record = data[starts[index] : ends[index]]
                counts[index] = self._quoted_field.sub(rb"\1", record).count(self._delimiter) + 1
        return counts.astype(np.int64)


_Places = npt.NDArray[np.int64]
_Cuts = tuple[_Places, _Places, _Places, dict[int, tuple[str, str]], int, bool]
"""Where records start, where their text ends, where the next begins; the bad ones by start; bytes used; skipping."""

_UNCLOSED = ("unclosed-quote", "a quote at the beginning of a field is never closed")
_HUGE = ("huge-line", f"longer than the {LONGEST_LINE:,} bytes allowed")


def _gather(data: bytes, starts: _Places, after: _Places, good: npt.NDArray[np.bool_], used: int | None) -> bytes:
    """The bytes of the good records; without a copy for each when all are good."""
    if used is not None and good.all():
        return data[:used]
    return b"".join(data[start:end] for start, end in zip(starts[good], after[good], strict=True))
