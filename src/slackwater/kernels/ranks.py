"""Last-writer-wins: for each key the update with the greatest rank, in one pass over a batch in any order.

A rank is (event time, place of the source, sequence). `settle` compares every row with the last one of its slot, be it
of this batch or from before; a row of equal rank takes its place, so that the same update again changes nothing.
`settled_plainly` is its twin over a dictionary.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@compiled
def settle(
    slots: Integers,
    times: Integers,
    sources: Integers,
    sequences: Integers,
    source_order: Integers,
    ranked: Flags,
    last_times: Integers,
    last_sources: Integers,
    last_sequences: Integers,
    winners: Integers,
    won: Integers,
) -> int:
    """Note the last row of every slot; returns how many slots got a new one.

    `winners` has −1 for every slot, before; after, the row that won where one did. Those slots are written to `won`.
    """
    count = 0
    for row in range(len(slots)):
        slot = slots[row]
        if ranked[slot]:
            if times[row] < last_times[slot]:
                continue
            if times[row] == last_times[slot]:
                place, last_place = source_order[sources[row]], source_order[last_sources[slot]]
                if place < last_place or (place == last_place and sequences[row] < last_sequences[slot]):
                    continue
        ranked[slot] = True
        last_times[slot] = times[row]
        last_sources[slot] = sources[row]
        last_sequences[slot] = sequences[row]
        if winners[slot] < 0:
            won[count] = slot
            count += 1
        winners[slot] = row
    return count


def settled_plainly(
    ranks: dict[int, tuple[int, int, int]], batch: Sequence[tuple[int, tuple[int, int, int]]]
) -> dict[int, int]:
    """The row that won of each slot; `ranks` is moved on.

    >>> settled_plainly({7: (5, 0, 0)}, [(7, (4, 0, 0)), (8, (1, 0, 0)), (8, (1, 0, 0))])
    {8: 2}
    """
    won = {}
    for row, (slot, rank) in enumerate(batch):
        if slot not in ranks or rank >= ranks[slot]:
            ranks[slot] = rank
            won[slot] = row
    return won
