"""Deduplication state: the sequence numbers already admitted from one source.

Rows that a source numbers (0 and up) are remembered exactly, as ranges (`kernels.sequences`). Rows that came
without a number are known by a hash of their content, written as a negative number (`admission.identity`); of
those the last `RECENT` are remembered.

A `Seen` is a value: `admit` returns what is new and the next `Seen`, and the caller keeps the next one only once
the rows are safely in the log.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slackwater.kernels.sequences import admit as admit_numbers

MOST_RANGES = 65_536
"""Ranges remembered for a source. One more, and its lowest hole is given up: what should have come there will look
like a repeat if it comes after all."""
RECENT = 65_536
"""Content hashes that are remembered for a source that does not number its rows."""
LARGEST_SEQUENCE = 2**62

Integers = npt.NDArray[np.int64]


def _none() -> Integers:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The numbers seen as ranges `starts..ends` (inclusive), and the latest content hashes in order of arrival.

    >>> fresh, seen, given_up = Seen().admit(np.array([7, 8, 8], np.int64))
    >>> fresh.tolist(), seen.ranges()
    ([True, True, False], [(7, 8)])
    """

    starts: Integers = field(default_factory=_none)
    ends: Integers = field(default_factory=_none)
    recent: Integers = field(default_factory=_none)

    def admit(self, sequences: Integers) -> tuple[npt.NDArray[np.bool_], "Seen", int]:
        """Flag the rows not seen before; return the flags, what is seen then, and how many numbers were given up."""
        fresh = np.empty(len(sequences), np.bool_)
        hashed = sequences < 0
        if not hashed.any():
            starts, ends, given_up = self._numbered(sequences, fresh)
            return fresh, Seen(starts, ends, self.recent), given_up
        numbered = ~hashed
        fresh_numbers = np.empty(int(numbered.sum()), np.bool_)
        starts, ends, given_up = self._numbered(sequences[numbered], fresh_numbers)
        fresh[numbered] = fresh_numbers
        hashes = sequences[hashed]
        first = np.zeros(len(hashes), np.bool_)
        first[np.unique(hashes, return_index=True)[1]] = True
        new = first & ~np.isin(hashes, self.recent)
        fresh[hashed] = new
        recent = np.concatenate([self.recent, hashes[new]])[-RECENT:]
        return fresh, Seen(starts, ends, recent), given_up

    def _numbered(self, numbers: Integers, fresh: npt.NDArray[np.bool_]) -> tuple[Integers, Integers, int]:
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
        if too_many:
            starts[too_many] = starts[0]
        return starts[too_many:count].copy(), ends[too_many:count].copy(), given_up

    def ranges(self) -> list[tuple[int, int]]:
        """The numbers seen, as inclusive ranges."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))
