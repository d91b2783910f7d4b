"""Whether boxes that somebody else made are a region: no two of them may share a row.

Design
    Boxes overlap if they meet along every column, so along any one column it is enough to compare those whose hulls
    there do. How many pairs that are is counted for each column by sorting, before anything is compared, and the column
    with the fewest is taken. In one column the ranges of a region have none. Where even those are too many the boxes
    are refused, unseen: nobody waits for a stranger's puzzle.
"""

from bisect import bisect_right
from collections.abc import Sequence

from slackwater.core.errors import AlgebraError
from slackwater.core.extent import Place, hull
from slackwater.core.region import Box


def check_disjoint(boxes: Sequence[Box], most_pairs: int) -> None:
    """Refuse boxes of which two overlap, or that take more than `most_pairs` comparisons to tell."""
    if len(boxes) < 2:
        return
    best: tuple[int, list[Place], list[Place], list[Box]] | None = None
    for column in {column for box in boxes for column in box.columns} or {""}:
        in_order = sorted(
            ((*hull(box.extent(column)), number) for number, box in enumerate(boxes)),
            key=lambda one: (one[0], one[2]),
        )
        lows = [low for low, _, _ in in_order]
        pairs = sum(bisect_right(lows, high) - place - 1 for place, (_, high, _) in enumerate(in_order))
        if best is None or pairs < best[0]:
            best = pairs, lows, [high for _, high, _ in in_order], [boxes[number] for _, _, number in in_order]
    assert best is not None
    pairs, lows, highs, sorted_boxes = best
    if pairs > most_pairs:
        raise AlgebraError(f"{len(boxes)} boxes take {pairs} comparisons to be told apart, more than {most_pairs}")
    for place, box in enumerate(sorted_boxes):
        for other in sorted_boxes[place + 1 : bisect_right(lows, highs[place])]:
            if box.meets(other):
                raise AlgebraError(f"boxes of one region overlap: {str(box)[:200]} and {str(other)[:200]}")
