"""REST values of upstreams: sources of a node's rows, pulled items, and items offered to network planners."""

from typing import Any

import msgspec


class Upstream(msgspec.Struct, frozen=True):
    """An upstream node, or a source that is polled.

    `state` is `certain` or `doubtful`, `since` is when that last changed, in seconds since 1970. `position` is where
    the upstream stood when it was last heard of; a source has none.
    """

    name: str
    kind: str
    state: str
    why: str
    since: float
    items: int
    position: int | None
    requests: int | None = None
    """Number of requests to a pulled source."""


class OfferedItems(msgspec.Struct, frozen=True):
    """Items of one column that are held; `within` is the bound of each of the keys."""

    table: str
    column: str
    keys: list[list[Any]]
    within: list[float]


class Offers(msgspec.Struct, frozen=True):
    """Items that an aggregator can serve, and its message counts.

    `doubt`: why it cannot vouch for its items at the moment. `notifications`: how often each standing query, by its
    text, had something to say since this generation of the process began.
    """

    node: str
    generation: int
    doubt: str | None
    items: list[OfferedItems]
    notifications: dict[str, int]


class PlannedFigures(msgspec.Struct, frozen=True):
    """Of a query that is planned over aggregators: messages an hour, how often another plan was put in force, the
    messages that clients needed for that, and for which share of the time it was not certain, as clients report."""

    predicted: float | None
    measured: float | None
    replans: int
    planning: int | None
    uncertain: float | None


class Pulling(msgspec.Struct, frozen=True):
    """What is pulled for a query, measured since it began here and as it was foretold; None while nothing can be said.

    An item that several queries need is pulled once and counts for each of them, in both figures.
    """

    pulls: int
    an_hour: float | None
    predicted_an_hour: float | None
    delivered: float | None
