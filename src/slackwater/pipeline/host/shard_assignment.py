"""Shard assignment: the shard of each query, and its rebalancing when shards are loaded unequally.

Queries fall into buckets by their number, buckets are given to shards. All shards of operators that are spread *by
query* have all rows; so a bucket can be given to another shard at the end of any batch: the new one registers its
queries from the rows that it has, and publishes their values once, because it does not know the values published
before.

Joins may be spread by their rows instead (`join_cuts`): then a bucket is who tells a new subscriber the answer, and the
each shard finds the pairs of rows that it has. How their lines are cut belongs to a sharding as well.

Which shard keeps a bucket is part of what a state follows from. So every sharding has an epoch and a position from
which on it counts, and those that count from the oldest snapshot on are kept with the host.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from slackwater.core.durable_file import replace_file
from slackwater.core.errors import NotSupported
from slackwater.core.hosts import HostKind
from slackwater.hosting.engine import Keeps
from slackwater.hosting.step import Registration
from slackwater.processing.base import Partitioning
from slackwater.processing.joined import LineCuts, ShardPart
from slackwater.processing.operators import operators

BUCKETS = 1_024


class Sharding(msgspec.Struct, frozen=True):
    """From `position` on, bucket b is kept by shard `owners[b]`.

    >>> first = Sharding.even(0, 0, shards=2)
    >>> first.shard_of(7), first.shards
    (1, 2)
    """

    epoch: int
    position: int
    owners: tuple[int, ...]
    lines: tuple[LineCuts, ...] = ()

    @classmethod
    def even(cls, epoch: int, position: int, shards: int) -> "Sharding":
        """As many buckets for each."""
        return cls(epoch, position, tuple(bucket % shards for bucket in range(BUCKETS)))

    @property
    def shards(self) -> int:
        """How many there are."""
        return max(self.owners) + 1

    def shard_of(self, number: int) -> int:
        """The shard that keeps a query."""
        return self.owners[number % BUCKETS]

    def part(self, shard: int) -> ShardPart | None:
        """The part of the rows of joins that a shard has; None where it has all."""
        return ShardPart(shard, self.lines) if self.lines else None

    def with_lines(self, lines: tuple[LineCuts, ...], position: int) -> "Sharding":
        """The same from a position on, with lines cut in another way."""
        return Sharding(self.epoch + 1, position, self.owners, lines)

    def keeps(self, shard: int) -> Keeps:
        """The queries that a shard keeps."""

        def kept(one: Registration) -> bool:
            return one.host is HostKind.SPARK and self.shard_of(one.number) == shard

        return kept


def balanced(now: Sharding, seconds: Sequence[float], weights: Mapping[int, float], position: int) -> Sharding | None:
    """Give buckets of the busiest shard to the idlest until they are even; None where that would not help.

    `seconds` are what each shard needs for a batch, `weights` how much the queries of a bucket weigh. What a shard
    needs for the rows themselves it needs wherever the buckets are, so only differences count.
    """
    order = sorted(range(len(seconds)), key=seconds.__getitem__)
    busiest, idlest = order[-1], order[0]
    own = {bucket: weights.get(bucket, 0.0) for bucket, shard in enumerate(now.owners) if shard == busiest}
    total = sum(own.values())
    if not total or seconds[busiest] <= seconds[idlest]:
        return None
    # What half of the difference weighs, if all of the difference came from the queries.
    surplus = total * (seconds[busiest] - seconds[idlest]) / seconds[busiest] / 2
    moved = []
    for bucket, weight in sorted(own.items(), key=lambda one: (-one[1], one[0])):
        if 0 < weight <= surplus:
            moved.append(bucket)
            surplus -= weight
    if not moved:
        return None
    owners = list(now.owners)
    for bucket in moved:
        owners[bucket] = idlest
    return Sharding(now.epoch + 1, position, tuple(owners), now.lines)


class Shardings:
    """The shardings in force, in a file beside the publication log."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "shardings"
        self.all: tuple[Sharding, ...] = ()
        if self._path.exists():
            self.all = msgspec.json.decode(self._path.read_bytes(), type=tuple[Sharding, ...])

    @property
    def last(self) -> Sharding | None:
        """The one in force, or the next one."""
        return self.all[-1] if self.all else None

    def add(self, sharding: Sharding) -> None:
        """Let one count from its position on."""
        # One that never took effect, because nothing was published since, is replaced.
        self._keep((*(one for one in self.all if one.position < sharding.position), sharding))

    def forget_before(self, position: int) -> None:
        """Keep the shardings in force from a position on."""
        kept = tuple(since(self.all, position))
        if kept != self.all:
            self._keep(kept)

    def _keep(self, shardings: tuple[Sharding, ...]) -> None:
        replace_file(self._path, msgspec.json.encode(shardings))
        self.all = shardings


def since(shardings: Sequence[Sharding], position: int) -> Sequence[Sharding]:
    """The one under which a position was reached, and all after it."""
    first = max((nth for nth, one in enumerate(shardings) if one.position < position), default=0)
    return shardings[first:]


def beginning_at(shardings: Sequence[Sharding], position: int) -> Sharding:
    """The one under which a batch is done that begins at a position; the first where there is none yet."""
    return next((one for one in reversed(shardings) if one.position <= position), shardings[0])


def check_operators() -> None:
    """Refuse to begin with an operator that cannot be spread in this way."""
    for operator in operators():
        if operator.partitioning is Partitioning.BY_KEY:
            raise NotSupported(f"{operator.name} is spread {operator.partitioning.value}; shards are made by query")
