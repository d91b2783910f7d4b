"""A row that comes by itself, folded where it stands in memory.

Design
    Taking a batch of one row apart in Python costs several times what folding it does. Here a batch comes as the
    address of its `ArrowArray`, the structure of the Arrow C data interface, and its few cells are read in place. The
    caller holds on to the batch meanwhile.

    It is done for what is common: a key that is known, the source of the row before, columns of 64 bits. For anything
    else the answer is `UNUSUAL`, nothing has been changed, and the row is folded as a batch of any size is, by
    `kernels.key_table`, `kernels.ranks` and `kernels.row_fold`; their sum is the oracle of the tests.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import bytes_at, compiled, numbers_at, offsets_at, words_at
from slackwater.kernels.key_table import Letters, Places, Secret, are_equal, number_texts, number_words
from slackwater.kernels.ranks import settle

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NOTHING, UNUSUAL = -1, -2
_NULLS, _OFFSET, _BUFFERS, _CHILDREN = 1, 2, 5, 6
"""Where these stand in an `ArrowArray`, in words."""


class Ranks(NamedTuple):
    """The last rank of each slot, whether there is a row, and room to work in."""

    source_order: Integers
    ranked: Flags
    times: Integers
    sources: Integers
    sequences: Integers
    winners: Integers
    there: Flags


@compiled
def _values(child: int, size: int) -> int:
    """Address of the first value of a column whose values have so many bytes."""
    head = words_at(child, 7)
    return int(words_at(head[_BUFFERS], 2)[1] + size * head[_OFFSET])


@compiled
def _is_there(child: int) -> bool:
    """Whether the first cell of a column is not null."""
    head = words_at(child, 7)
    bits = words_at(head[_BUFFERS], 2)[0]
    if head[_NULLS] == 0 or bits == 0:
        return True
    return bool((bytes_at(bits + head[_OFFSET] // 8, 1)[0] >> (head[_OFFSET] % 8)) & 1 == 1)


@compiled
def _letters(child: int, end: int) -> Letters:
    """The bytes of a column of texts, up to an end."""
    return bytes_at(words_at(words_at(child, 7)[_BUFFERS], 3)[2], end)


@compiled
def fold_row(
    batch: int,
    width: int,
    key: int,
    columns: Integers,
    are_numbers: Flags,
    stored: Integers,
    is_text: bool,
    places: Places,
    secret: Secret,
    starts: Integers,
    letters: Letters,
    top: int,
    source: Letters,
    code: int,
    upsert: int,
    ranks: Ranks,
    cells: Integers,
    valid: Flags,
    had_has: Flags,
) -> int:
    """Fold the one row of a batch; returns its slot where that changes its row, else `NOTHING` or `UNUSUAL`.

    A batch has `width` columns and then those of its provenance. Column `columns[k]` of them has its values and flags
    by slot at the addresses `stored[2 * k]` and after it. What was and what is goes to `cells` and `valid`, a line
    each. Keys that are no texts stand in `starts`.
    """
    head = words_at(batch, 7)
    if head[_OFFSET] != 0:
        return UNUSUAL
    children = words_at(head[_CHILDREN], width + 4)
    # The provenance: operation, event time, source and sequence.
    offsets = offsets_at(_values(children[width + 2], 4), 2)
    if offsets[1] - offsets[0] != len(source) or not are_equal(
        source, 0, _letters(children[width + 2], offsets[1]), offsets[0], len(source)
    ):
        return UNUSUAL
    slots, won = np.empty(1, np.int64), np.empty(1, np.int64)
    if is_text:
        offsets = offsets_at(_values(children[key], 4), 2)
        data = _letters(children[key], offsets[1])
        number_texts(places, secret, starts, letters, top, offsets, data, 0, False, slots)
    else:
        number_words(places, secret, starts, top, words_at(_values(children[key], 8), 1), 0, False, slots)
    slot = slots[0]
    if slot < 0:
        return UNUSUAL
    count = settle(
        slots,
        words_at(_values(children[width + 1], 8), 1),
        np.full(1, code),
        words_at(_values(children[width + 3], 8), 1),
        ranks.source_order,
        ranks.ranked,
        ranks.times,
        ranks.sources,
        ranks.sequences,
        ranks.winners,
        won,
    )
    if count == 0:
        return NOTHING
    ranks.winners[slot] = -1
    had, has = ranks.there[slot], np.int8(bytes_at(_values(children[width], 1), 1)[0]) == upsert
    changed = had != has
    for k in range(len(columns)):
        child = children[columns[k]]
        own, flag = words_at(stored[2 * k] + 8 * slot, 1), bytes_at(stored[2 * k + 1] + slot, 1)
        cells[0, k], valid[0, k] = own[0], flag[0] == 1
        valid[1, k] = has and _is_there(child)
        cells[1, k] = words_at(_values(child, 8), 1)[0] if valid[1, k] else 0
        if valid[0, k] != valid[1, k]:
            changed = True
        elif valid[0, k] and are_numbers[k]:
            # Zeros of both signs are equal, as everywhere.
            changed |= numbers_at(stored[2 * k] + 8 * slot, 1)[0] != numbers_at(_values(child, 8), 1)[0]
        elif valid[0, k]:
            changed |= cells[0, k] != cells[1, k]
    if not changed:
        return NOTHING
    for k in range(len(columns)):
        words_at(stored[2 * k] + 8 * slot, 1)[0] = cells[1, k]
        bytes_at(stored[2 * k + 1] + slot, 1)[0] = valid[1, k]
    ranks.there[slot] = has
    had_has[0], had_has[1] = had, has
    return int(slot)
