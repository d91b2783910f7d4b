"""Sharded matcher: standing joins over shards, by range with a margin for bands and without one for equality.

Design
    Every shard keeps all queries and *owns* the left rows whose join value lies between two boundaries; of the right
    rows it has a copy of each that could be a partner of a row it owns. For a band that is a margin as wide as the
    widest query on either side, for equality none. A result is found by the shard that owns its left row and by no
    other: nothing is lost at a seam and nothing found twice. An arriving left row goes to its owner; an arriving right
    row to all shards that may own a partner, and the affected queries they find are united.

    Boundaries are quantiles of the left rows, so that shards own about as many each. A value so frequent that several
    quantiles fall on it stands as a boundary several times: the shards that touch it share the value, its left rows go
    to one of them by their ids, its right rows to all. That is how skew is spread, also that of one key: no shard owns
    more than twice its share.

    When a query is wider than all before, the margin grows and right rows are copied to where they are missing. A query
    that is open on one side makes the margin infinite: every shard then has all right rows. Keep such queries in a
    matcher of their own.

    `Sharded` has its shards in one process and keeps the contract of a matcher; what goes where is `Cuts`, which a host
    on several machines can ask alike.
"""

from dataclasses import dataclass

import numpy as np

from slackwater.processing.base import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Where the line of join values is cut: shard k owns from `bounds[k − 1]` to `bounds[k]`, the ends not alone.

    >>> cuts = Cuts(np.array([10.0, 20.0, 20.0]))
    >>> cuts.owners(np.array([5.0, 10.0, 20.0, 20.0, 99.0]), np.array([0, 0, 0, 1, 0])).tolist()
    [0, 1, 3, 2, 3]
    >>> cuts.readers(np.array([8.0]), np.array([15.0]))     # shards that may own a row between 8 and 15
    (array([0]), array([1]))
    """

    bounds: Floats

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return len(self.bounds) + 1

    def owners(self, join: Floats, ids: Integers) -> Integers:
        """The shard of each left row; a value that is a boundary n times is shared by the n + 1 shards it touches."""
        first, last = self.readers(join, join)
        owners: Integers = last - np.mod(ids, last - first + 1)
        return owners

    def readers(self, low: Floats, high: Floats) -> tuple[Integers, Integers]:
        """The first and the last shard that may own a row in each closed range."""
        return np.searchsorted(self.bounds, low, side="left"), np.searchsorted(self.bounds, high, side="right")

    def reached(self, join: Floats, least: float, most: float) -> tuple[Integers, Integers]:
        """The first and the last shard that may own a partner of each right row: right − left in [least, most]."""
        # With room for rounding, of the difference itself and here.
        with np.errstate(over="ignore"):
            return self.readers(
                np.nextafter(join - most, -np.inf) - _slip(join, most),
                np.nextafter(join - least, np.inf) + _slip(join, least),
            )


def cuts_of(join: Floats, shards: int) -> Cuts:
    """Boundaries by which shards own about as many of these left rows each."""
    if not len(join):
        return Cuts(np.linspace(-1.0, 1.0, shards + 1)[1:-1])
    return Cuts(np.quantile(join, np.linspace(0, 1, shards + 1)[1:-1], method="inverted_cdf"))


def _slip(join: Floats, end: float) -> Floats:
    """More than a rounded difference can be off by."""
    return np.abs(join) * 4e-16 + (abs(end) * 4e-16 if np.isfinite(end) else 0.0)
