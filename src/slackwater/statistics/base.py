"""Summary protocol: a mergeable sketch of a history, small enough to send and exact to merge.

Contract (kept by every class in `slackwater.statistics.SUMMARIES`, tested in `tests/contracts/test_statistics.py`)

1.  *Cuts do not matter.* `update` with the rows of a history in any batch cuts, in order of time for each item, gives
    the same `value()`: whole numbers exactly, sums to a relative 1e-9 of the size of their terms. Inside a batch rows
    may stand in any order.
2.  *Merging.* `earlier.merge(later)` makes `earlier` what it would be had it been updated with both histories one
    after the other. The change across the seam counts, so a piece remembers the first and the last tick of every
    item. Merging is associative. `later` is not changed.
3.  *Order.* Pieces hold consecutive stretches of time, item by item; two pieces with no item in common fit in either
    order. The caller merges in order of time (`combine` does, for pieces whose spans do not overlap). A piece or
    batch in which an item begins before the end of what was counted of it is refused with `StatisticsError`, and
    nothing of it is taken: a change that has been counted cannot be split afterwards. Equal times are allowed; then
    the order of arrival decides. `Histogram` and `Coverage` do not look at neighbours: for them any order will do.
    `Similarity` asks for more, that pieces are consecutive for all items together; see there.
4.  *Empty is neutral*, on either side.
5.  *Parameters agree.* Merging summaries made with different parameters is refused.
6.  *Bytes.* `from_bytes(to_bytes())` is the same summary, in this and in every later version of Slackwater; bytes
    of a newer format, of another kind or damaged ones are refused.
7.  *Fading.* With a half-life h, what happened at event time t weighs 2^(−(T−t)/h) at time T, and the laws above
    still hold. `value()` is as at the last tick of all.
8.  `value()` lists items in the order of their names, and does not change the summary.

Figures that never fade: counts of ticks, changes and gaps, smallest and largest values.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, Self, TypeVar

from slackwater.core.errors import StatisticsError


class Summary(Protocol):
    """Mergeable summary; the module states its contract. Each class defines its batches and its value."""

    kind: ClassVar[str]
    """The name of the class in bytes and files."""

    def update(self, batch: Any) -> None:
        """Count a batch of rows."""
        ...

    def merge(self, later: Self) -> None:
        """Count what another summary has counted, which came after."""
        ...

    def value(self) -> Any:
        """The figures."""
        ...

    def span(self) -> tuple[int, int] | None:
        """The first and the last moment counted, or None."""
        ...

    def parameters(self) -> dict[str, Any]:
        """Constructor parameters, as values of JSON."""
        ...

    def to_bytes(self) -> bytes:
        """Everything, to be sent or kept."""
        ...

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode a summary."""
        ...


S = TypeVar("S", bound=Summary)


def combine(pieces: Iterable[S]) -> S:
    """Merge pieces in order of time into the earliest one, which is changed and returned."""
    filled = list(pieces)
    if not filled:
        raise StatisticsError("there is nothing to combine: at least one piece is needed")
    filled.sort(key=lambda piece: piece.span() or (-(2**63), -(2**63)))
    whole = filled[0]
    for piece in filled[1:]:
        whole.merge(piece)
    return whole


def check_agreement(mine: Summary, theirs: Summary) -> None:
    """Refuse to merge summaries that were made with different parameters."""
    if mine.kind != theirs.kind:
        raise StatisticsError(f"expected a {mine.kind} summary to merge, but came {theirs.kind}")
    ours, others = mine.parameters(), theirs.parameters()
    for name, value in ours.items():
        if others[name] != value:
            raise StatisticsError(
                f"two {mine.kind} summaries can only be merged when made with the same {name}: "
                f"here {value!r}, there {others[name]!r}"
            )
