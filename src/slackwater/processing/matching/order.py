"""Growable sorted list: `slackwater.kernels.sorted_blocks` as an object."""

from itertools import pairwise

import numpy as np

from slackwater.kernels.block_changes import delete_entries, fill_blocks, insert_entries
from slackwater.kernels.sorted_blocks import BLOCKS, ENTRIES, EVER, FREE, Packed, group_starts, read_out
from slackwater.processing.base import Floats, Integers


class PackedOrder:
    """Entries (first, second, slot) in order, each carrying `width` more numbers.

    >>> order = PackedOrder(width=1, room=4)
    >>> for value in (3.0, 1.0, 2.0, 5.0, 4.0):
    ...     order.insert(np.array([value]), np.array([0.0]), np.array([int(value)]), np.array([[-value]]))
    >>> order.entries()[2].tolist(), int(order.packed.meta[0])
    ([1, 2, 3, 4, 5], 2)
    """

    def __init__(self, width: int = 0, room: int = 256) -> None:
        self._width, self._room = width, room
        self.packed = _empty(4, width, room)
        self._starts: tuple[Integers, tuple[Integers, Integers]] | None = None

    def __len__(self) -> int:
        return int(self.packed.meta[ENTRIES])

    def insert(self, first: Floats, second: Floats, slots: Integers, carried: Floats | None = None) -> None:
        """Insert entries, in any order."""
        carried = np.zeros((len(slots), 0)) if carried is None else carried
        self._starts = None
        if len(slots) * 4 > len(self):
            # Sorting all anew is cheaper than moving block after block.
            old = self.entries()
            self.build(
                np.concatenate((old[0], first)),
                np.concatenate((old[1], second)),
                np.concatenate((old[2], slots)),
                np.concatenate((old[3], carried)),
            )
            return
        # Any entry may cut a block in two: batch by batch, so that room is asked for only where it is needed.
        for start in range(0, len(slots), 4096):
            part = slice(start, start + 4096)
            self._make_room(min(4096, len(slots) - start) + 1)
            insert_entries(self.packed, first[part], second[part], slots[part], carried[part])

    def delete(self, first: Floats, second: Floats, slots: Integers) -> None:
        """Delete entries that are there."""
        self._starts = None
        if delete_entries(self.packed, first, second, slots) != len(slots):
            raise AssertionError("an entry to delete was not in its list")

    def build(self, first: Floats, second: Floats, slots: Integers, carried: Floats | None = None) -> None:
        """Have these entries and no others."""
        carried = np.zeros((len(slots), 0)) if carried is None else carried
        self._starts = None
        by = np.lexsort((slots, second, first))
        fill = max(self._room * 3 // 4, 1)
        self.packed = _empty(-(-len(slots) // fill) + 4, self._width, self._room)
        fill_blocks(self.packed, first[by], second[by], slots[by], carried[by], fill)

    def entries(self) -> tuple[Floats, Floats, Integers, Floats]:
        """All entries in order, in flat arrays."""
        count = len(self)
        out = np.empty(count), np.empty(count), np.empty(count, np.int64), np.empty((count, self._width))
        read_out(self.packed, *out)
        return out

    def starts(self, groups: Integers) -> tuple[Integers, Integers]:
        """Where the entries begin whose first number is each of these: places of blocks, and offsets in them."""
        if self._starts is None or self._starts[0] is not groups:
            out = np.empty(len(groups), np.int64), np.empty(len(groups), np.int64)
            group_starts(self.packed, groups, *out)
            # Small batches ask again and again between changes of the list.
            self._starts = groups, out
        return self._starts[1]

    def _make_room(self, blocks: int) -> None:
        packed = self.packed
        need = int(packed.meta[EVER] - packed.meta[FREE]) + blocks
        have = len(packed.sizes)
        if need <= have:
            return
        grown = _empty(max(need, have + have // 4), self._width, self._room)
        for old, new in zip(packed, grown, strict=True):
            new[: len(old)] = old
        self.packed = grown

    def _check(self) -> None:
        packed = self.packed
        blocks = int(packed.meta[BLOCKS])
        order = packed.order[:blocks]
        assert len(set(order.tolist())) == blocks
        assert blocks + packed.meta[FREE] == packed.meta[EVER] <= len(packed.sizes)
        assert (packed.sizes[order] > 0).all()
        assert packed.sizes[order].sum() == packed.meta[ENTRIES]
        first, second, slots, _ = self.entries()
        keys = list(zip(first.tolist(), second.tolist(), slots.tolist(), strict=True))
        assert all(a < b for a, b in pairwise(keys))
        for place, block in enumerate(order.tolist()):
            size = packed.sizes[block]
            assert packed.keys_first[place] == packed.first[block, 0]
            assert packed.keys_second[place] == packed.second[block, 0]
            assert packed.keys_slot[place] == packed.slots[block, 0]
            assert (packed.tops[block] == packed.carried[block, :, :size].max(axis=1)).all()


def _empty(blocks: int, width: int, room: int) -> Packed:
    shape = (blocks, room)
    return Packed(
        np.empty(shape),
        np.empty(shape),
        np.empty(shape, np.int64),
        np.empty((blocks, width, room)),
        np.empty((blocks, width)),
        np.zeros(blocks, np.int64),
        np.zeros(blocks, np.int64),
        np.empty(blocks),
        np.empty(blocks),
        np.zeros(blocks, np.int64),
        np.zeros(blocks, np.int64),
        np.zeros(4, np.int64),
    )
