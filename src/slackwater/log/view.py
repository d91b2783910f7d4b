"""Log view: an immutable snapshot of readable segments, so that readers and the writer never block each other."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from slackwater.core.errors import LogCorrupt, PositionGone
from slackwater.core.lineage import Lineage
from slackwater.core.types import Position
from slackwater.log.catalog import Catalog
from slackwater.log.segment import Segment, file_name


@dataclass(frozen=True, slots=True)
class View:
    """The segments in order, the end of what is durable, and the tables by then."""

    segments: tuple[Segment, ...]
    end: Position
    catalog: Catalog

    @property
    def start(self) -> Position:
        """The first position held."""
        return self.segments[0].first

    @property
    def lineage(self) -> Lineage:
        """The incarnations by then."""
        return self.last.header.lineage

    @property
    def last(self) -> Segment:
        """The segment that grows."""
        return self.segments[-1]

    def holding(self, position: Position) -> Segment:
        """The segment that a position lies in."""
        nth = bisect_right(self.segments, position, key=lambda segment: segment.first) - 1
        if nth < 0:
            raise PositionGone(f"position {position} is no longer in the log, which now starts at {self.start}")
        return self.segments[nth]


def chain(files: Sequence[Path], known: Sequence[Segment] = ()) -> tuple[Segment, ...]:
    """Load the segments that are not known yet and seal all but the last.

    A folder in which one is missing, or has another length than its successor says, is `LogCorrupt`.
    """
    by_name = {segment.path.name: segment for segment in known}
    segments = tuple(by_name.get(file.name) or Segment.load(file) for file in files)
    sealed = {segment.path.name for segment in known[:-1]}
    for before, after in pairwise(segments):
        if before.path.name in sealed:
            continue
        expected = after.header.previous_first if after.header.previous_bytes else None
        if expected != before.first:
            missing = "a segment" if expected is None else file_name(expected)
            raise LogCorrupt(
                f"{missing} is missing from the log: it stood between {before.path.name} and {after.path.name}; "
                f"put it back from a copy"
            )
        before.seal(after.header)
        length = before.path.stat().st_size
        if length != before.size:
            raise LogCorrupt(
                f"{before.path.name} is damaged: it has {length} bytes where {before.size} were written; "
                f"put it back from a copy"
            )
    return segments
