"""Retention policy: which segments of the past a log drops, by size and age."""

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.core.errors import LogError
from slackwater.core.types import Instant, Position


@dataclass(frozen=True, slots=True)
class SegmentSpan:
    """A segment as retention sees it. `sealed` is when its successor was begun; None while it is written to."""

    first: Position
    end: Position
    size: int
    sealed: Instant | None


@dataclass(frozen=True, slots=True)
class Retention:
    """Keep at most so many bytes, and nothing older than so many microseconds; None is no limit.

    Age counts from when records were written, not from their event times: replaying an old trace is no reason to
    drop it. Only whole segments are dropped, and never the one being written to.

    >>> spans = [
    ...     SegmentSpan(Position(0), Position(100), 5000, sealed=Instant(10)),
    ...     SegmentSpan(Position(100), Position(180), 4000, sealed=None),
    ... ]
    >>> Retention(most_bytes=6000).droppable(spans, now=Instant(20), in_use=Position(180))
    100
    >>> Retention(most_bytes=6000).droppable(spans, now=Instant(20), in_use=Position(42))
    0
    """

    most_bytes: int | None = None
    oldest: int | None = None

    def __post_init__(self) -> None:
        for name, limit in (("most_bytes", self.most_bytes), ("oldest", self.oldest)):
            if limit is not None and limit < 0:
                raise LogError(f"{name} of a retention must be 0 or more, not {limit}; None means no limit")

    def droppable(self, spans: Sequence[SegmentSpan], now: Instant, in_use: Position) -> Position:
        """The position before which everything may be dropped; never beyond `in_use`, the oldest one needed."""
        total = sum(span.size for span in spans)
        droppable = spans[0].first if spans else Position(0)
        for span in spans:
            if span.sealed is None or span.end > in_use:
                break
            too_big = self.most_bytes is not None and total > self.most_bytes
            too_old = self.oldest is not None and now - span.sealed > self.oldest
            if not (too_big or too_old):
                break
            total -= span.size
            droppable = span.end
        return droppable
