"""The labels of one client on one table: which rows it is sent, under which plan, and from where in the log on.

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
"""Boxes that are pushed to one client of one table: each change is held against all of them."""
MOST_SPOKEN = 512
"""Boxes of a region that a client speaks of; clients ask in another way for more."""
MOST_WEIGHT = 16_384
"""Boxes, sides and values of categories of either."""
MOST_SAID = 256 * 1024
"""Bytes that a region takes in a message, if a client is to speak of it."""
MOST_PAIRS = 20_000
"""Pairs of boxes that are compared for a client: it is done while everybody else waits."""
MOST_WORK = 1_000_000
"""Boxes, sides and values of categories that are looked at for that."""


def labellable(pushed: Region) -> bool:
    """Whether labels may be this: nodes make no others, and nobody takes others."""
    return len(pushed.boxes) <= MOST_LABELLED and pushed.weight <= MOST_WEIGHT


def label_of(plain: list[Any]) -> Region:
    """What is pushed, as somebody else wrote it; an AlgebraError where labels may not be that."""
    return strange_region(plain, MOST_LABELLED, MOST_WEIGHT, MOST_LABELLED**2, MOST_LABELLED * MOST_WEIGHT)


def spoken(plain: list[Any], among: int = 1) -> Region:
    """What a client speaks of, as one of so many regions of a message; an AlgebraError where it may not be that."""
    return strange_region(plain, MOST_SPOKEN, MOST_WEIGHT, MOST_PAIRS, MOST_WORK // among)


def speakable(region: Region) -> bool:
    """Whether a client may speak of a region: nodes take no others, and a message that is too long ends a session."""
    if len(region.boxes) > MOST_SPOKEN or region.weight > MOST_WEIGHT:
        return False
    try:
        check_disjoint(region.boxes, MOST_PAIRS, MOST_WORK)
    except AlgebraError:
        return False
    return len(msgspec.msgpack.encode(plain_region(region))) <= MOST_SAID


@dataclass(frozen=True, slots=True)
class Labels:
    """What is pushed to `client` of `table`, from `position` on, under plan `epoch`; a higher epoch replaces a lower.

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
        if not labellable(self.pushed):
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
    """The labels that such a line was made of."""
    try:
        plain = _decoder.decode(line)
        return Labels(
            plain.client,
            plain.table,
            plain.epoch,
            Position(plain.position),
            tuple(plain.attributes),
            label_of(plain.pushed),
        )
    except (msgspec.MsgspecError, AlgebraError) as error:
        raise PlanningError(f"this is not a line of a labels file: {error}") from error


def read_labels(lines: Iterable[str]) -> Iterator[Labels]:
    """All labels of a file, empty lines passed over."""
    return (labels_of(line) for line in lines if line.strip())
