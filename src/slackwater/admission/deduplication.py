"""Deduplication state: the sequence numbers already admitted from one source.

Rows that a source numbers (0 and up) are remembered exactly, as ranges (`kernels.sequences`), from a *floor* on. The
floor is 0 until more than `MOST_RANGES` ranges are open; then it rises to the lowest range that is kept. Nothing is
known about numbers below the floor, so they are outside the window: neither fresh nor repeats, but to be refused.

Rows that came without a number and with a time of their own are known by a hash of their content, written as a
negative number (`admission.identity`); of those the last `RECENT` are remembered. Rows with neither have an arrival
ordinal below those hashes: they have no identity, are always fresh, and are not remembered.

A `Seen` is a value: `admit` returns what is new and the next `Seen`, and the caller keeps the next one only once
the rows are safely in the log.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from slackwater.kernels.sequences import admit as admit_numbers

MOST_RANGES = 65_536
"""Ranges remembered for a source. One more, and its lowest hole is given up: the floor rises above it."""
RECENT = 65_536
"""Content hashes that are remembered for a source that does not number its rows."""
LARGEST_SEQUENCE = 2**62
SMALLEST_CONTENT = -(2**62)
"""Content hashes are from here to −1."""
FIRST_ORDINAL = -(2**63)
"""Arrival ordinals are from here up to the content hashes."""

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def _none() -> Integers:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The numbers seen as ranges `starts..ends` (inclusive), and the latest content hashes in order of arrival.

    No range begins below `floor`, from which on the numbers seen are known.

    >>> fresh, seen, given_up = Seen().admit(np.array([7, 8, 8], np.int64))
    >>> fresh.tolist(), seen.ranges()
    ([True, True, False], [(7, 8)])
    """

    starts: Integers = field(default_factory=_none)
    ends: Integers = field(default_factory=_none)
    recent: Integers = field(default_factory=_none)
    floor: int = 0

    def outside(self, sequences: Integers) -> Flags:
        """Flag the numbers outside the window, of which it is not known whether they were seen."""
        if not self.floor:
            return np.zeros(len(sequences), np.bool_)
        below: Flags = (sequences >= 0) & (sequences < self.floor)
        return below

    def admit(self, sequences: Integers) -> tuple[Flags, "Seen", int]:
        """Flag the rows not seen before; return the flags, what is seen then, and how many numbers were given up.

        Numbers outside the window are not flagged and change nothing.
        """
        fresh = np.zeros(len(sequences), np.bool_)
        known = sequences >= self.floor
        if known.all():
            seen, given_up = self._numbered(sequences, fresh)
            return fresh, seen, given_up
        fresh_numbers = np.empty(int(known.sum()), np.bool_)
        seen, given_up = self._numbered(sequences[known], fresh_numbers)
        fresh[known] = fresh_numbers
        fresh[sequences < SMALLEST_CONTENT] = True
        hashed = (sequences < 0) & (sequences >= SMALLEST_CONTENT)
        if hashed.any():
            hashes = sequences[hashed]
            first = np.zeros(len(hashes), np.bool_)
            first[np.unique(hashes, return_index=True)[1]] = True
            new = first & ~np.isin(hashes, self.recent)
            fresh[hashed] = new
            seen = replace(seen, recent=np.concatenate([self.recent, hashes[new]])[-RECENT:])
        return fresh, seen, given_up

    def after_next(self, first: int, last: int) -> "Seen | None":
        """The memory after the numbers from `first` to `last`, if all come after the latest one; None elsewhere.

        What a source that counts on needs: no merging, and no compiled kernel that a first row would have to wait for.

        >>> after = Seen(np.array([1]), np.array([4])).after_next(5, 7)
        >>> after.ranges(), after.after_next(9, 9).ranges(), after.after_next(7, 9) is None
        ([(1, 7)], [(1, 7), (9, 9)], True)
        """
        count = len(self.ends)
        latest = int(self.ends[-1]) if count else self.floor - 1
        if first <= latest:
            return None
        if count and first == latest + 1:
            ends = self.ends.copy()
            ends[-1] = last
            return Seen(self.starts, ends, self.recent, self.floor)
        if count >= MOST_RANGES:
            return None
        return Seen(np.append(self.starts, first), np.append(self.ends, last), self.recent, self.floor)

    def _numbered(self, numbers: Integers, fresh: Flags) -> tuple["Seen", int]:
        """The same for numbers from the floor on."""
        if not len(numbers):
            return self, 0
        if (numbers[1:] < numbers[:-1]).any():
            order = np.argsort(numbers, kind="stable")  # of equal numbers the first stays first
            in_order = np.empty_like(fresh)
            result = self._numbered(numbers[order], in_order)
            fresh[order] = in_order
            return result
        room = len(self.starts) + len(numbers)
        starts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
        count = admit_numbers(self.starts, self.ends, numbers, fresh, starts, ends)
        too_many = max(count - MOST_RANGES, 0)
        given_up = int((starts[1 : too_many + 1] - ends[:too_many] - 1).sum())
        floor = int(starts[too_many]) if too_many else self.floor
        return Seen(starts[too_many:count].copy(), ends[too_many:count].copy(), self.recent, floor), given_up

    def ranges(self) -> list[tuple[int, int]]:
        """The numbers seen, as inclusive ranges."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))
