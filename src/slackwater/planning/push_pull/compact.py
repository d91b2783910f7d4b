"""Box cover: a union of boxes as few boxes, in a canonical form.

Promises
    1. `compact(boxes)` holds the rows of the boxes and no others; its boxes are disjoint.
    2. It depends on the set of rows and the values that the boxes name, not on the order or the cutting of the boxes.
    3. In one attribute no region of these extents with fewer boxes holds the same rows. In more, finding the fewest is
       NP-hard; of the forms below, one for each order of the attributes, the one with the fewest boxes is taken.

Design
    Every attribute becomes an axis, and a side of a box the set of coordinates that it holds, as the bits of a whole
    number. Cut along the first axis: all coordinates that the same boxes hold have the same cross-section, which is
    made compact in the remaining axes first; coordinates with equal cross-sections are joined, neighbours or not, and
    `Axis.extents` writes them as few extents: ranges where there is an order, sets where there is none. A cross-section
    is in this form already, so equal sets are equal values, and by induction the form is the same for equal sets. Then
    boxes that differ along one axis alone are joined along it, axis by axis, as long as that makes them fewer.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise, permutations, product
from operator import or_

from slackwater.core.region import EVERYTHING, NOTHING, Box, Region, Side
from slackwater.planning.push_pull.axis import Axis, values_of

MOST_ORDERED = 3
"""With more attributes than this only one order of them is tried, not all."""

Bits = int
Sides = tuple[Bits, ...]
Form = tuple[tuple[Bits, "Form"], ...]
"""Pairs of coordinates along the first axis and their cross-section; after the last axis the empty form."""


def compact(boxes: Iterable[Box]) -> Region:
    """Join boxes that may overlap.

    >>> from slackwater.core.extent import Interval
    >>> pieces = [Interval(1, 3), Interval(3, 5, low_open=True), Interval(9, 9)]
    >>> print(compact(Box.of(Side("price", piece)) for piece in pieces))
    (price in [1, 5]) or (price in {9})
    """
    distinct = list(dict.fromkeys(boxes))
    if not distinct:
        return NOTHING
    columns = sorted({side.column for box in distinct for side in box.sides})
    if not columns or any(not box.sides for box in distinct):
        return EVERYTHING
    orders = list(permutations(columns)) if len(columns) <= MOST_ORDERED else [tuple(columns)]
    axes = {
        column: Axis.of(column, [value for box in distinct for value in values_of(box.extent(column))])
        for column in columns
    }
    sides = {column: [_bits(axes[column].ranges(box.extent(column))) for box in distinct] for column in columns}
    found: list[Box] | None = None
    for order in orders:
        own = [axes[column] for column in order]
        form = _form([tuple(parts) for parts in zip(*(sides[column] for column in order), strict=True)])
        made = _joined(_boxes(form, own), own)
        if found is None or len(made) < len(found):
            found = [Box.of(*(side for pair in zip(own, box, strict=True) for side in _side(*pair))) for box in made]
    assert found is not None
    return Region(tuple(found))


def _form(boxes: Sequence[Sides]) -> Form:
    if not boxes[0]:
        return ()
    if len(boxes[0]) == 1:
        return ((reduce(or_, (box[0] for box in boxes)), ()),)
    by_section: dict[Form, Bits] = {}
    for held, coordinates in _alike([box[0] for box in boxes]):
        section = _form([boxes[k][1:] for k in held])
        by_section[section] = by_section.get(section, 0) | coordinates
    # In the order of their first coordinates, which nothing but the set decides.
    return tuple(sorted(((bits, section) for section, bits in by_section.items()), key=lambda pair: pair[0] & -pair[0]))


def _alike(sides: Sequence[Bits]) -> list[tuple[list[int], Bits]]:
    """The numbers of the boxes that hold the same coordinates, and these coordinates, of all that any holds."""
    changes: dict[int, Bits] = {}
    for number, bits in enumerate(sides):
        for low, high in _ranges(bits):
            changes[low] = changes.get(low, 0) ^ 1 << number
            changes[high + 1] = changes.get(high + 1, 0) ^ 1 << number
    edges = sorted(changes)
    held: Bits = 0
    parts: dict[Bits, Bits] = {}
    for edge, beyond in pairwise(edges):
        held ^= changes[edge]
        parts[held] = parts.get(held, 0) | (1 << beyond) - (1 << edge)
    parts.pop(0, None)
    return [([k for run in _ranges(held) for k in range(run[0], run[1] + 1)], bits) for held, bits in parts.items()]


def _boxes(form: Form, axes: Sequence[Axis]) -> list[Sides]:
    """The boxes of a form, each side of which is one extent."""
    if not axes:
        return [()]
    axis, *rest = axes
    answer = []
    for bits, section in form:
        answer += [(part, *others) for part, others in product(_parts(axis, bits), _boxes(section, rest))]
    return answer


def _joined(boxes: list[Sides], axes: Sequence[Axis]) -> list[Sides]:
    """Join boxes along one axis after the other while they become fewer."""
    fewest = len(boxes) + 1
    while len(boxes) < fewest:
        fewest = len(boxes)
        for place, axis in enumerate(axes):
            alike: dict[Sides, Bits] = {}
            for box in boxes:
                others = (*box[:place], *box[place + 1 :])
                alike[others] = alike.get(others, 0) | box[place]
            boxes = [
                (*others[:place], part, *others[place:])
                for others, bits in alike.items()
                for part in _parts(axis, bits)
            ]
    return boxes


def _parts(axis: Axis, bits: Bits) -> list[Bits]:
    return [_bits(part) for part in axis.parts(_ranges(bits))]


def _side(axis: Axis, bits: Bits) -> list[Side]:
    return [Side(axis.column, extent) for extent in axis.extents(_ranges(bits)) if extent is not None]


def _bits(ranges: Sequence[tuple[int, int]]) -> Bits:
    return reduce(or_, ((1 << high + 1) - (1 << low) for low, high in ranges), 0)


def _ranges(bits: Bits) -> list[tuple[int, int]]:
    """The runs of ones, from low to high.

    >>> _ranges(0b110101)
    [(0, 0), (2, 2), (4, 5)]
    """
    answer, at = [], 0
    while bits:
        skipped = (bits & -bits).bit_length() - 1
        bits >>= skipped
        length = (~bits & (bits + 1)).bit_length() - 1
        answer.append((at + skipped, at + skipped + length - 1))
        bits >>= length
        at += skipped + length
    return answer
