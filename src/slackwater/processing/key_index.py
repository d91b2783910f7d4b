"""Key index: the slot of each key of a table, a number in the order in which keys are first met.

Keys of one text are bytes, keys of one other column are words, both in tables of `kernels.key_table`. Keys of several
columns are written one after the other as bytes, each text behind its length, so that different keys differ.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np
import pyarrow as pa

from slackwater.core.arrow import INSTANT
from slackwater.core.types import DataType, Key, Scalar
from slackwater.kernels import key_rows as rows
from slackwater.kernels import key_table as kernel
from slackwater.kernels.key_table import Letters, Offsets
from slackwater.processing.base import Integers
from slackwater.processing.columns import texts_of, unpacked, values_of

_FIRST_PLACES = 128
_SECRET = np.array([hash("slackwater"), hash("secret")], np.int64).view(np.uint64)
"""Python's own, other in every process: no slot depends on it."""


KeyTable = tuple[bool, kernel.Places, kernel.Secret, Integers, Letters, int]
"""Whether keys are texts, their places, the secret of these, starts and letters or words and nothing, and how many."""
_NO_LETTERS: Letters = np.zeros(0, np.uint8)


class KeyIndex(Protocol):
    """The keys that were met, by slot."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def number(self, columns: Sequence[pa.Array], *, adding: bool = True) -> Integers:
        """The slots of the keys in these columns; of one that is new the next slot, or −1 unless `adding`."""
        ...

    def number_keys(self, keys: Sequence[Key], *, adding: bool = True) -> Integers:
        """The same for keys of Python, whose parts are of the types of their columns."""
        ...

    def columns(self, slots: Integers) -> list[pa.Array]:
        """The key columns of these slots."""
        ...

    @property
    def table(self) -> KeyTable | None:
        """What a compiled loop needs to find a key; None where that is not enough."""
        ...


def key_index(kinds: Sequence[DataType]) -> KeyIndex:
    """An index without keys, for keys of these types."""
    if len(kinds) > 1:
        return CompositeKeys(kinds)
    return TextKeys() if kinds[0] is DataType.TEXT else WordKeys(kinds[0])


class TextKeys:
    """Keys of one text."""

    def __init__(self) -> None:
        self._places = np.zeros(_FIRST_PLACES, np.uint64)
        self.starts: Integers = np.zeros(_FIRST_PLACES // 2, np.int64)
        self.letters: Letters = np.zeros(8 * _FIRST_PLACES, np.uint8)
        self._top = 0

    def __len__(self) -> int:
        return self._top

    def number(self, columns: Sequence[pa.Array], *, adding: bool = True) -> Integers:
        """The slots of a column of texts."""
        return self.number_texts(*texts_of(columns[0]), adding=adding)

    def number_keys(self, keys: Sequence[Key], *, adding: bool = True) -> Integers:
        """The slots of texts."""
        return self.number_texts(*_python_texts([key[0] for key in keys]), adding=adding)

    def columns(self, slots: Integers) -> list[pa.Array]:
        """The texts of these slots."""
        begins, ends = self.starts[slots], self.starts[slots + 1]
        offsets, data = np.empty(len(slots) + 1, np.int32), np.empty(int((ends - begins).sum()), np.uint8)
        rows.copy_ranges(self.letters, begins, ends, offsets, data)
        return [_texts(offsets, data)]

    @property
    def table(self) -> KeyTable | None:
        """See `KeyIndex`."""
        return True, self._places, _SECRET, self.starts, self.letters, self._top

    def number_texts(self, offsets: Offsets, data: Letters, *, adding: bool = True) -> Integers:
        """The slots of texts that stand side by side."""
        slots: Integers = np.empty(len(offsets) - 1, np.int64)
        row = 0
        while True:
            row, self._top = kernel.number_texts(
                self._places, _SECRET, self.starts, self.letters, self._top, offsets, data, row, adding, slots
            )
            if row == len(slots):
                return slots
            self._make_room(int(offsets[row + 1] - offsets[row]))

    def _make_room(self, length: int) -> None:
        """Have room for one more text of a length."""
        top, letters = self._top, int(self.starts[self._top]) + length
        if 2 * (top + 1) > len(self._places):
            self._places = np.zeros(2 * len(self._places), np.uint64)
            kernel.place_texts(self._places, _SECRET, self.starts, self.letters, top)
        if top + 1 >= len(self.starts):
            self.starts = np.concatenate([self.starts, np.zeros(len(self.starts), np.int64)])
        if letters > len(self.letters):
            more = max(letters, 2 * len(self.letters)) - len(self.letters)
            self.letters = np.concatenate([self.letters, np.zeros(more, np.uint8)])


class WordKeys:
    """Keys of one column that is no text."""

    def __init__(self, kind: DataType) -> None:
        self._kind = kind
        self._places = np.zeros(_FIRST_PLACES, np.uint64)
        self._words: Integers = np.zeros(_FIRST_PLACES // 2, np.int64)
        self._top = 0

    def __len__(self) -> int:
        return self._top

    def number(self, columns: Sequence[pa.Array], *, adding: bool = True) -> Integers:
        """The slots of a column."""
        return self._number(_words(columns[0], self._kind), adding)

    def number_keys(self, keys: Sequence[Key], *, adding: bool = True) -> Integers:
        """The slots of numbers."""
        return self._number(_python_words([key[0] for key in keys], self._kind), adding)

    def columns(self, slots: Integers) -> list[pa.Array]:
        """The numbers of these slots."""
        return [_numbers(self._words[slots], self._kind)]

    @property
    def table(self) -> KeyTable | None:
        """See `KeyIndex`; numbers and truth values first become words."""
        if self._kind in (DataType.DOUBLE, DataType.BOOLEAN):
            return None
        return False, self._places, _SECRET, self._words, _NO_LETTERS, self._top

    def _number(self, words: Integers, adding: bool) -> Integers:
        slots: Integers = np.empty(len(words), np.int64)
        words.flags.writeable = False
        row = 0
        while True:
            row, self._top = kernel.number_words(
                self._places, _SECRET, self._words, self._top, words, row, adding, slots
            )
            if row == len(slots):
                return slots
            self._words = np.concatenate([self._words, np.zeros(len(self._words), np.int64)])
            self._places = np.zeros(2 * len(self._places), np.uint64)
            kernel.place_words(self._places, _SECRET, self._words, self._top)


class CompositeKeys:
    """Keys of several columns, one part behind the other."""

    def __init__(self, kinds: Sequence[DataType]) -> None:
        self._kinds = tuple(kinds)
        self._texts = np.array([kind is DataType.TEXT for kind in kinds])
        self._keys = TextKeys()

    def __len__(self) -> int:
        return len(self._keys)

    def number(self, columns: Sequence[pa.Array], *, adding: bool = True) -> Integers:
        """The slots of rows of key columns."""
        parts = [
            texts_of(column) if kind is DataType.TEXT else _as_texts(_words(column, kind))
            for column, kind in zip(columns, self._kinds, strict=True)
        ]
        return self._number(parts, adding)

    def number_keys(self, keys: Sequence[Key], *, adding: bool = True) -> Integers:
        """The slots of keys of Python."""
        columns = [[key[place] for key in keys] for place in range(len(self._kinds))]
        parts = [
            _python_texts(column) if kind is DataType.TEXT else _as_texts(_python_words(column, kind))
            for column, kind in zip(columns, self._kinds, strict=True)
        ]
        return self._number(parts, adding)

    def columns(self, slots: Integers) -> list[pa.Array]:
        """The key columns of these slots."""
        starts, letters = self._keys.starts, self._keys.letters
        begins, ends = starts[slots], starts[slots + 1]
        found = []
        for kind in self._kinds:
            rows.begin_part(letters, kind is DataType.TEXT, begins, ends)
            offsets, data = np.empty(len(slots) + 1, np.int32), np.empty(int((ends - begins).sum()), np.uint8)
            rows.copy_ranges(letters, begins, ends, offsets, data)
            found.append(_texts(offsets, data) if kind is DataType.TEXT else _numbers(data.view(np.int64), kind))
            begins, ends = ends, starts[slots + 1]
        return found

    @property
    def table(self) -> KeyTable | None:
        """See `KeyIndex`."""
        return None

    def _number(self, parts: list[tuple[Offsets, Letters]], adding: bool) -> Integers:
        offsets: Offsets = np.zeros(len(parts[0][0]), np.int32)
        data: Letters = np.zeros(0, np.uint8)
        for (more_offsets, more), is_text in zip(parts, self._texts.tolist(), strict=True):
            room = len(data) + int(more_offsets[-1] - more_offsets[0]) + rows.LENGTH * len(offsets)
            longer_offsets, longer = np.empty(len(offsets), np.int32), np.empty(room, np.uint8)
            rows.append_part(offsets, data, more_offsets, more, is_text, longer_offsets, longer)
            offsets, data = longer_offsets, longer
        offsets.flags.writeable = data.flags.writeable = False
        return self._keys.number_texts(offsets, data, adding=adding)


def _words(column: pa.Array, kind: DataType) -> Integers:
    """A column that is no text as words of 64 bits; zero has one sign only: 0.0 and −0.0 are the same key."""
    if kind is DataType.BOOLEAN:
        return unpacked(column)[0].astype(np.int64)
    if kind is DataType.DOUBLE:
        return (values_of(column, np.float64) + 0.0).view(np.int64)
    return values_of(column, np.int64)


def _python_words(values: Sequence[Scalar], kind: DataType) -> Integers:
    if kind is DataType.DOUBLE:
        return (np.array(values, np.float64) + 0.0).view(np.int64)
    return np.array(values, np.int64)


def _numbers(words: Integers, kind: DataType) -> pa.Array:
    if kind is DataType.BOOLEAN:
        return pa.array(words != 0)
    array = pa.array(words.view(np.float64) if kind is DataType.DOUBLE else words)
    return array.view(INSTANT) if kind is DataType.TIMESTAMP else array


def _texts(offsets: Offsets, data: Letters) -> pa.Array:
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


def _python_texts(values: Sequence[Scalar]) -> tuple[Offsets, Letters]:
    return side_by_side([str(value).encode("utf-8", "surrogatepass") for value in values])


def _as_texts(words: Integers) -> tuple[Offsets, Letters]:
    return 8 * np.arange(len(words) + 1, dtype=np.int32), np.ascontiguousarray(words).view(np.uint8)


def side_by_side(texts: Sequence[bytes]) -> tuple[Offsets, Letters]:
    """Some texts in the layout of an Arrow column."""
    offsets: Offsets = np.array([0, *accumulate(map(len, texts))], np.int32)
    offsets.flags.writeable = False  # as Arrow's are: one compiled loop serves both
    return offsets, np.frombuffer(b"".join(texts), np.uint8)
