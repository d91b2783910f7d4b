"""Log summary: counts, sizes and time ranges of a local log, from frame heads alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slackwater.core import disk
from slackwater.core.errors import LogError
from slackwater.core.lineage import Lineage
from slackwater.core.types import Instant, Position
from slackwater.log.follower import Follower
from slackwater.log.frame import Head
from slackwater.log.records import RecordKind
from slackwater.log.view import View


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """One segment file."""

    file: str
    first: Position
    end: Position
    records: int
    size: int
    begun: Instant


@dataclass(frozen=True, slots=True)
class ContentSummary:
    """The records of one kind about one table. Event times are those of updates."""

    kind: RecordKind | int
    table: str
    records: int
    rows: int
    size: int
    earliest: Instant | None
    latest: Instant | None


@dataclass(frozen=True, slots=True)
class LogSummary:
    """A whole log."""

    start: Position
    end: Position
    tables: tuple[str, ...]
    segments: tuple[SegmentSummary, ...]
    contents: tuple[ContentSummary, ...]
    lineage: Lineage

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def records(self) -> int:
        """How many records there are."""
        return sum(segment.records for segment in self.segments)

    @property
    def earliest(self) -> Instant | None:
        """The earliest event time."""
        return min((one.earliest for one in self.contents if one.earliest is not None), default=None)

    @property
    def latest(self) -> Instant | None:
        """The latest event time."""
        return max((one.latest for one in self.contents if one.latest is not None), default=None)


def inspect(path: str | Path) -> LogSummary:
    """Summarise the log in a folder, which may be written meanwhile; bodies of records are not read."""
    follower = Follower(Path(path))
    while True:
        try:
            return _summarise(follower.look())
        except FileNotFoundError:
            continue  # the writer dropped a segment meanwhile: look again
        except OSError as error:
            raise LogError(f"the log at {path} cannot be read: {error.strerror}") from error


def _summarise(view: View) -> LogSummary:
    segments: list[SegmentSummary] = []
    contents: dict[tuple[int, str], ContentSummary] = {}
    for segment in view.segments:
        with disk.opened(segment.path) as descriptor:
            records = _count(segment.heads(descriptor), contents)
        segments.append(
            SegmentSummary(segment.path.name, segment.first, segment.end, records, segment.size, segment.header.begun)
        )
    return LogSummary(
        start=view.start,
        end=view.end,
        tables=tuple(table.name for table in view.catalog),
        segments=tuple(segments),
        contents=tuple(contents[key] for key in sorted(contents)),
        lineage=view.lineage,
    )


def _count(heads: Iterable[Head], contents: dict[tuple[int, str], ContentSummary]) -> int:
    """Add the records to the contents; return how many there were."""
    records = 0
    for head in heads:
        records += 1
        key = (head.kind, head.subject)
        so_far = contents.get(key) or ContentSummary(_kind(head.kind), head.subject, 0, 0, 0, None, None)
        contents[key] = ContentSummary(
            kind=so_far.kind,
            table=so_far.table,
            records=so_far.records + 1,
            rows=so_far.rows + head.rows,
            size=so_far.size + head.next_offset - head.offset,
            earliest=min((at for at in (so_far.earliest, head.earliest) if at is not None), default=None),
            latest=max((at for at in (so_far.latest, head.latest) if at is not None), default=None),
        )
    return records


def _kind(number: int) -> RecordKind | int:
    try:
        return RecordKind(number)
    except ValueError:
        return number  # written by a newer version
