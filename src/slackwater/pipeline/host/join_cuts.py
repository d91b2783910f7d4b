"""Join partitioning rule: joins sharded by the rows of their lines, or by query.

Joins are spread by rows where that sends rows to few shards: where the line that they compare can be cut so that a
right row goes to one shard and to less than `most_reach` of the others, on average. (A left row always goes to one.) Of
the windows under which that is so, the one that holds most of the joins is taken. Joins beyond it, such as bands that
are open on one side, and joins on tables with few rows are spread by query: there every shard has every row.

A line that is cut stays as it is until a shard owns `skew` times what it should and would own clearly less after
another cut, or right rows go clearly further than they may, or another window would hold all of the joins or clearly
more of them. When it is cut again, every shard takes the line's joins and its rows in anew: so it must be worth it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.processing.joined import ComparedColumns, LineCuts, LineSample

_SLACK = 1.25
"""Right rows may go so much further before a line is cut again: the limit itself would be crossed time and again."""

_LESS = 1.1
"""A shard that owns too much must own so many times what any would own after another cut."""

_MORE = 0.05
"""A window that does not hold all joins must hold such a share more of them than the present one."""


@dataclass(frozen=True, slots=True)
class CutRule:
    """When joins are spread by rows; never where `most_reach` is negative."""

    every: int = 30
    """A survey in so many batches; it costs some milliseconds."""
    least_rows: int = 1_024
    most_reach: float = 0.5
    skew: float = 1.5


BY_QUERY = CutRule(most_reach=-1.0)
"""All joins by query, whatever they are."""


def recut(now: Sequence[LineCuts], seen: Sequence[LineSample], shards: int, rule: CutRule) -> tuple[LineCuts, ...]:
    """How lines are to be cut after a survey. Those that no joins were seen on stay: that costs nothing."""
    cut: dict[ComparedColumns, LineCuts | None] = {one.line: one for one in now}
    for one in seen:
        cut[one.line] = _cut(cut.get(one.line), one, shards, rule)
    return tuple(one for _, one in sorted(cut.items()) if one is not None)


def _cut(now: LineCuts | None, seen: LineSample, shards: int, rule: CutRule) -> LineCuts | None:
    others = (shards - 1) * rule.most_reach
    # The widest comes first, and has room for joins that are still to come.
    allowed = (one for one in seen.windows if one.reach <= 1 + others and one.share > 0)
    best = max(allowed, key=lambda one: one.share, default=None)
    present = seen.present
    if now is not None and present is not None:
        near = seen.fullest <= max(rule.skew, seen.evenest * _LESS) and present.reach <= 1 + others * _SLACK
        # One stray join makes its shard have all rows: holding all of them is worth more than holding many.
        enough = 0.0 if best is None else best.share if best.share == 1.0 else best.share - _MORE
        if near and present.share >= enough:
            return now
    elif seen.rows < rule.least_rows:
        return now
    return None if best is None else LineCuts(seen.line, seen.bounds, best.least, best.most)
