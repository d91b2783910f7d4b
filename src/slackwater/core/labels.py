"""Labels of a client's cache: the region that is pushed, the plan's epoch, and the log position it holds from.

Labels are what planning hands to serving. A *labels file* has one of them on each line, as JSON; the job that makes
labels for thousands of clients writes it, a node reads it. Rows outside `pushed` are the client's to ask for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from slackwater.core.disjoint import check_disjoint
from slackwater.core.errors import AlgebraError, PlanningError
from slackwater.core.region import Region
from slackwater.core.region_codec import plain_region, strange_region
from slackwater.core.types import Position

MOST_LABELLED = 1_024
"""Boxes pushed to one client of one table; each change is compared with all of them."""
MOST_REQUESTED = 512
"""Boxes of a region in a client's message; for a larger region the client sends the whole query."""
MOST_WEIGHT = 16_384
"""Boxes, sides and values of categories of a pushed region, or of one in a message."""
MOST_REQUEST_BYTES = 256 * 1024
"""Bytes of an encoded region in a client's message."""
MOST_PAIRS = 20_000
"""Pairs of boxes compared for one client message; all other sessions wait meanwhile."""
MOST_WORK = 1_000_000
"""Boxes, sides and values of categories visited by those comparisons."""


def is_pushable(pushed: Region) -> bool:
    """True if a region is small enough for labels; nodes make no larger ones and accept no larger ones."""
    return len(pushed.boxes) <= MOST_LABELLED and pushed.weight <= MOST_WEIGHT


def pushed_region(plain: list[Any]) -> Region:
    """The pushed region from an untrusted encoding; an AlgebraError where it is too large or invalid."""
    return strange_region(plain, MOST_LABELLED, MOST_WEIGHT, MOST_LABELLED**2, MOST_LABELLED * MOST_WEIGHT)


def requested_region(plain: list[Any], among: int = 1) -> Region:
    """One of `among` regions in a client's message; an AlgebraError where it is too large or invalid."""
    return strange_region(plain, MOST_REQUESTED, MOST_WEIGHT, MOST_PAIRS, MOST_WORK // among)


def is_requestable(region: Region) -> bool:
    """True if a region is small enough for a client's message; a node closes a session that sends a larger one."""
    if len(region.boxes) > MOST_REQUESTED or region.weight > MOST_WEIGHT:
        return False
    try:
        check_disjoint(region.boxes, MOST_PAIRS, MOST_WORK)
    except AlgebraError:
        return False
    return len(msgspec.msgpack.encode(plain_region(region))) <= MOST_REQUEST_BYTES


@dataclass(frozen=True, slots=True)
class Labels:
    """The rows of `table` pushed to `client` from `position` on, under plan `epoch`; a higher epoch replaces a lower.

    `attributes` are the columns along which planning cut the table; `pushed` constrains no others.
    """

    client: str
    table: str
    epoch: int
    position: Position
    attributes: tuple[str, ...]
    pushed: Region

    def __post_init__(self) -> None:
        if self.epoch < 1:
            raise PlanningError(f"labels have an epoch of 1 or more, not {self.epoch}: 0 is before there were any")
        if not is_pushable(self.pushed):
            raise PlanningError(
                f"the labels of {self.client} are {len(self.pushed.boxes)} boxes of weight {self.pushed.weight}; "
                f"{MOST_LABELLED} and {MOST_WEIGHT} are allowed: push fewer, or larger, regions"
            )
        cut = {column for box in self.pushed for column in box.columns}
        if not cut <= set(self.attributes):
            raise PlanningError(
                f"the labels of {self.client} constrain {', '.join(sorted(cut))}, and name {', '.join(self.attributes)}"
            )


class _Line(msgspec.Struct, frozen=True):
    client: str
    table: str
    epoch: int
    position: int
    attributes: list[str]
    pushed: list[Any]


_decoder = msgspec.json.Decoder(_Line)


def labels_line(labels: Labels) -> str:
    """Labels as one line of a labels file, without its end.

    >>> from slackwater.core.region import NOTHING
    >>> labels_line(Labels("desk-7", "cars", 1, Position(40), ("price",), NOTHING))
    '{"client":"desk-7","table":"cars","epoch":1,"position":40,"attributes":["price"],"pushed":[]}'
    """
    line = _Line(
        labels.client,
        labels.table,
        labels.epoch,
        int(labels.position),
        list(labels.attributes),
        plain_region(labels.pushed),
    )
    return msgspec.json.encode(line).decode()


def labels_of(line: str | bytes) -> Labels:
    """Parse one line of a labels file."""
    try:
        plain = _decoder.decode(line)
        return Labels(
            plain.client,
            plain.table,
            plain.epoch,
            Position(plain.position),
            tuple(plain.attributes),
            pushed_region(plain.pushed),
        )
    except (msgspec.MsgspecError, AlgebraError) as error:
        raise PlanningError(f"this is not a line of a labels file: {error}") from error


def read_labels(lines: Iterable[str]) -> Iterator[Labels]:
    """All labels of a file, empty lines passed over."""
    return (labels_of(line) for line in lines if line.strip())
