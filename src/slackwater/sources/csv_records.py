"""CSV record splitter: cuts bytes into records, so that one bad record costs one record.

Design
    Arrow's CSV reader is fast but gives up for good on a line longer than its block, numbers rows only in some
    modes, and lets an unclosed quote swallow the rest of a file. So records are cut here, checked for their number of
    fields, and only good ones go to Arrow.

    A quote has meaning only at the beginning of a field (as in Arrow): `5" pipe` is a plain field. Inside quotes,
    a doubled quote is a quote, and delimiters and line ends are text. A line ends with LF, CR LF or CR.

    Blocks in which every quote begins or ends a field or is doubled, and no CR stands alone, which is nearly all of
    them, are cut with NumPy: a byte lies inside quotes if an odd number of quotes comes before it. Others are cut by
    a regular expression with possessive repeats, which cannot backtrack and so takes linear time.

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
    """A record that is no row: which number it has among the records of its piece, and what is wrong.

    `torn` means that it may become another record, or other records, when the file grows on.
    """

    index: int
    text: bytes
    reason: str
    detail: str
    torn: bool = False


@dataclass(frozen=True, slots=True)
class CsvPiece:
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

    def pieces(self, blocks: Iterable[bytes]) -> Iterator[CsvPiece]:
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

    def _cut(self, data: bytes, *, final: bool, torn: bool = False) -> tuple[CsvPiece, bytes, bool]:
        """Cut what is whole; return it, the rest, and whether the rest of a huge line is still to be skipped."""
        octets = np.frombuffer(data, np.uint8)
        inside = _inside_quotes(data, octets, self._delimiter)
        regular = inside is not None
        starts, ends, after, bad, used, skipping = (
            self._careful(data, final=final) if inside is None else _regular(octets, inside)
        )
        if regular and (final or len(data) - used > self._longest) and used < len(data):
            # A quote still open, or a line without end: look at the rest again, for where to go on.
            tail = self._careful(data[used:], final=final)
            bad = {used + start: why for start, why in tail[3].items()}
            starts, ends, after = (
                np.concatenate((whole, used + part))
                for whole, part in zip((starts, ends, after), tail[:3], strict=True)
            )
            used, skipping, regular = used + tail[4], tail[5], False
        kept = (ends > starts) | np.isin(starts, list(bad))
        starts, ends, after = starts[kept], ends[kept], after[kept]
        counts = self._counts(data, octets, starts, ends, inside if regular else None)
        trouble = self._trouble(starts, ends, counts, bad, torn)
        good = np.ones(len(starts), np.bool_)
        good[list(trouble)] = False
        piece = CsvPiece(
            data=_gather(data, starts, after, good, used if kept.all() else None),
            indices=np.flatnonzero(good),
            total=len(starts),
            bad=_listed(data, starts, ends, trouble, final),
            quoted=b'"' in data,
        )
        return piece, data[used:], skipping

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
        starts: "_Places",
        ends: "_Places",
        counts: "_Places",
        bad: dict[int, tuple[str, str]],
        torn: bool,
    ) -> dict[int, tuple[str, str]]:
        """Which records are no rows, by index."""
        trouble = {int(np.searchsorted(starts, start)): why for start, why in bad.items()}
        for index in np.flatnonzero(ends - starts > self._longest):
            trouble.setdefault(int(index), _HUGE)
        for index in np.flatnonzero(counts != self._fields) if self._fields is not None else ():
            last = torn and index == len(starts) - 1
            reason = "truncated-line" if last else "wrong-field-count"
            detail = f"{counts[index]} fields where {self._fields} were expected"
            trouble.setdefault(int(index), (reason, detail))
        return trouble

    def _counts(
        self,
        data: bytes,
        octets: npt.NDArray[np.uint8],
        starts: "_Places",
        ends: "_Places",
        inside: npt.NDArray[np.bool_] | None,
    ) -> "_Places":
        """How many fields each record has; `inside` is given where it holds for all of them."""
        marks = np.flatnonzero(octets == self._delimiter[0])
        if inside is not None:
            marks = marks[~inside[marks]]
        counts = np.searchsorted(marks, ends) - np.searchsorted(marks, starts) + 1
        if inside is None:
            quotes = np.flatnonzero(octets == _QUOTE)
            for index in np.flatnonzero(np.searchsorted(quotes, ends) > np.searchsorted(quotes, starts)):
                record = data[starts[index] : ends[index]]
                counts[index] = self._quoted_field.sub(rb"\1", record).count(self._delimiter) + 1
        return counts.astype(np.int64)


_Places = npt.NDArray[np.int64]
_Cuts = tuple[_Places, _Places, _Places, dict[int, tuple[str, str]], int, bool]
"""Where records start, where their text ends, where the next begins; the bad ones by start; bytes used; skipping."""

_QUOTE, _LF, _CR = 34, 10, 13
_UNCLOSED = ("unclosed-quote", "a quote at the beginning of a field is never closed")
_HUGE = ("huge-line", f"longer than the {LONGEST_LINE:,} bytes allowed")


def _inside_quotes(data: bytes, octets: npt.NDArray[np.uint8], delimiter: bytes) -> npt.NDArray[np.bool_] | None:
    """Mask of the bytes between quotes; None where the count of quotes does not determine it.

    It does when every first, third, … quote begins a field and every other ends one, or both are halves of a
    doubled quote; and when no CR outside quotes stands alone.
    """
    if b'"' not in data:
        inside = np.zeros(len(octets), np.bool_)
    else:
        quotes = np.flatnonzero(octets == _QUOTE)
        opening, closing = quotes[0::2], quotes[1::2]
        edges = np.zeros(256, np.bool_)
        edges[[_QUOTE, _LF, _CR, delimiter[0]]] = True
        # A quote beside a quote is half of a doubled one, if the other half is its neighbour in the order.
        before = octets[np.maximum(opening - 1, 0)]
        after = octets[np.minimum(closing + 1, len(octets) - 1)]
        begins = edges[before] | (opening == 0)
        ends = edges[after]
        if not (begins.all() and ends.all()):
            return None
        inside = (np.cumsum(octets == _QUOTE, dtype=np.uint8) & 1).astype(np.bool_)
    if b"\r" in data:
        returns = np.flatnonzero((octets == _CR) & ~inside)
        followed = octets[np.minimum(returns + 1, len(octets) - 1)]
        if np.any((followed != _LF) & (returns + 1 < len(octets))):
            return None
    return inside


def _regular(octets: npt.NDArray[np.uint8], inside: npt.NDArray[np.bool_]) -> "_Cuts":
    """Cut at the line feeds outside quotes."""
    newlines = np.flatnonzero(octets == _LF)
    newlines = newlines[~inside[newlines]]
    if not len(newlines):
        none = np.empty(0, np.int64)
        return none, none, none, {}, 0, False
    after = newlines + 1
    starts = np.concatenate(([0], after[:-1]))
    ends = newlines - ((octets[np.maximum(newlines - 1, 0)] == _CR) & (newlines > starts))
    return starts, ends, after, {}, int(after[-1]), False


def _listed(
    data: bytes, starts: _Places, ends: _Places, trouble: dict[int, tuple[str, str]], final: bool
) -> tuple[Bad, ...]:
    """The bad records in order; an open quote is only a stray one if good rows follow, else the file was torn there."""
    last_good = max(set(range(len(starts))) - trouble.keys(), default=-1) if final and trouble else len(starts)
    listed = []
    uncertain = False
    for index, (reason, detail) in sorted(trouble.items()):
        uncertain = uncertain or (index > last_good and reason in ("truncated-line", _UNCLOSED[0]))
        listed.append(Bad(index, data[starts[index] : ends[index]], reason, detail, uncertain))
    return tuple(listed)


def _gather(data: bytes, starts: _Places, after: _Places, good: npt.NDArray[np.bool_], used: int | None) -> bytes:
    """The bytes of the good records; without a copy for each when all are good."""
    if used is not None and good.all():
        return data[:used]
    return b"".join(data[start:end] for start, end in zip(starts[good], after[good], strict=True))
