"""Range allocator: places of an array in use, handed out and taken back.

Sizes are rounded up to a power of two beyond eight, so that what one query leaves fits the next one.
"""


class RangeAllocator:
    """Gives out ranges of places from 0 up to `top`."""

    def __init__(self) -> None:
        self.top = 0
        self._free: dict[int, list[int]] = {}

    def take(self, size: int) -> int:
        """The first place of a range of this size."""
        size = _rounded(size)
        free = self._free.get(size)
        if free:
            return free.pop()
        self.top += size
        return self.top - size

    def give_back(self, first: int, size: int) -> None:
        """A range that `take` gave is free again."""
        self._free.setdefault(_rounded(size), []).append(first)


def _rounded(size: int) -> int:
    return size if size <= 8 else 1 << (size - 1).bit_length()
