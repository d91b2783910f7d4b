"""Folding rows into columns by slot: which rows differ from those that are there, and writing them.

A batch's column comes as values and flags of which cells there are; no flags at all mean that there are all. Row
`rows[k]` is the one that counts for `slots[k]`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Cells = npt.NDArray[Any]


@compiled
def scan(winners: Integers, top: int, won: Integers) -> None:
    """Write the slots that have a row, in order."""
    count = 0
    for slot in range(top):
        if winners[slot] >= 0:
            won[count] = slot
            count += 1


@compiled
def begin(
    winners: Integers,
    slots: Integers,
    operations: npt.NDArray[np.int8],
    upsert: int,
    there: Flags,
    rows: Integers,
    had: Flags,
    has: Flags,
    changed: Flags,
) -> None:
    """Move the rows of these slots out of `winners`; write which slots had one, have one, and came or went."""
    for k in range(len(slots)):
        slot = slots[k]
        rows[k] = winners[slot]
        winners[slot] = -1
        had[k] = there[slot]
        has[k] = operations[rows[k]] == upsert
        changed[k] = had[k] != has[k]


@compiled
def compare(
    slots: Integers,
    rows: Integers,
    had: Flags,
    has: Flags,
    values: Cells,
    valid: Flags,
    stored: Cells,
    stored_valid: Flags,
    changed: Flags,
) -> None:
    """Set `changed` where a column is another one now."""
    every = len(valid) == 0
    for k in range(len(slots)):
        if had[k] and has[k]:
            slot, row = slots[k], rows[k]
            there = every or valid[row]
            if there != stored_valid[slot] or (there and stored[slot] != values[row]):
                changed[k] = True


@compiled
def write(
    slots: Integers, rows: Integers, has: Flags, values: Cells, valid: Flags, stored: Cells, stored_valid: Flags
) -> None:
    """Write rows to their slots; where a cell is null there stands zero."""
    every = len(valid) == 0
    for k in range(len(slots)):
        slot, row = slots[k], rows[k]
        stored_valid[slot] = has[k] and (every or valid[row])
        if stored_valid[slot]:
            stored[slot] = values[row]
        else:
            stored[slot] = 0
