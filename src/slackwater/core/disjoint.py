"""Disjointness check: refuses boxes from outside that share a row, in bounded time.

Design
    Boxes overlap if they meet along every column, so along any one column it is enough to compare those whose hulls
    there do. How many pairs that are is counted for each column by sorting, before anything is compared, and the column
    with the fewest is taken. In one column the ranges of a region have none. Where even those are too many the boxes
    are refused unseen: a hostile region must not block the server.

    A box that does not constrain a column meets all others there, which need not be looked at to be counted. So the
    counting takes as long as sorting all sides of all boxes does, however many columns they name.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from slackwater.core.errors import AlgebraError
from slackwater.core.extent import Place, hull
from slackwater.core.region import Box


def check_disjoint(boxes: Sequence[Box], most_pairs: int, most_work: int) -> None:
    """Refuse boxes of which two overlap, or that take more than `most_pairs` comparisons to tell.

    A comparison may look at all of both boxes, every value of a category; `most_work` is for all comparisons together.
    """
    if len(boxes) < 2:
        return
    column, pairs = telling_column(boxes)
    if pairs > most_pairs:
        raise AlgebraError(f"{len(boxes)} boxes take {pairs} comparisons to be told apart, more than {most_pairs}")
    in_order = sorted(
        ((*hull(box.extent(column)), number) for number, box in enumerate(boxes)), key=lambda one: (one[0], one[2])
    )
    lows = [low for low, _, _ in in_order]
    ends = [bisect_right(lows, high) for _, high, _ in in_order]
    weights = [boxes[number].weight for _, _, number in in_order]
    before = [0, *accumulate(weights)]
    work = sum((end - place - 1) * weights[place] + before[end] - before[place + 1] for place, end in enumerate(ends))
    if work > most_work:
        raise AlgebraError(f"{len(boxes)} boxes of many sides or values take too long to be told apart")
    for place, (_, _, number) in enumerate(in_order):
        box = boxes[number]
        for _, _, other in in_order[place + 1 : ends[place]]:
            if box.meets(boxes[other]):
                raise AlgebraError(f"boxes of one region overlap: {str(box)[:200]} and {str(boxes[other])[:200]}")


def telling_column(boxes: Sequence[Box]) -> tuple[str, int]:
    """The most selective column for a sweep: fewest pairs of boxes may meet along it; with the number of pairs."""
    sides: dict[str, list[tuple[Place, Place]]] = {}
    for box in boxes:
        for side in box.sides:
            sides.setdefault(side.column, []).append(hull(side.extent))
    counted = {column: _pairs(some, len(boxes)) for column, some in sides.items()} or {"": _pairs((), len(boxes))}
    column = min(counted, key=counted.__getitem__)
    return column, counted[column]


def _pairs(hulls: Sequence[tuple[Place, Place]], boxes: int) -> int:
    """How many pairs of so many boxes may meet along a column that these hulls are in and the others are not."""
    lows = sorted(low for low, _ in hulls)
    # Of two whose hulls meet one begins not before the other, and not after its end.
    meeting = sum(bisect_right(lows, high) for _, high in hulls) - len(hulls) * (len(hulls) + 1) // 2
    others = boxes - len(hulls)
    return meeting + others * len(hulls) + others * (others - 1) // 2
