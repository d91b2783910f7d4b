"""Aggregator contract, in words, and the values of its vocabulary.

Contract

1.  An aggregator holds *items*: one number each, the value of a column in the row of a key, within a bound cᵢ of what
    it is at the upstream. It asks for each by a standing query of its own, so an upstream may be any node, another
    aggregator too; then bounds add up.
2.  All items of one upstream come over one connection. The notifications of a frame are written to the aggregator's own
    log as one batch, so at every position of that log the rows of an upstream are right as of *one* position of the
    upstream: |held − truth| ≤ cᵢ for each item, and a row is there if and only if it is there upstream.
3.  A query of a client WITHIN b is kept over what is held, within b less its *floor*: what the items that it reads may
    be off together. So |value − truth| ≤ b, where truth is that of the upstream's position. A query whose bound is
    below its floor is refused with the bound that could be promised.
4.  What is not held is not guessed: a query that may read other keys than those is refused, and so is one whose answer
    depends on *which* rows have a certain value.
5.  While an upstream cannot be relied on, every query that reads its items is suspended with the reason. It is resumed
    when all items are certain again and what they are is in the log and applied. An aggregator begins so.
6.  Nothing goes back: an update carries the upstream's position in its sequence, and after a restart nothing from
    before the last one is taken.
7.  What is *polled* is right only when it is fetched. Such tables are for queries with FIDELITY, and for looking at
    what was fetched last.

What a client is shown while it is certain was right at a position where the upstream stood no longer ago than a lease
of the upstream, a lease of the aggregator, and twice the time that a write may take.
"""

from dataclasses import dataclass

from slackwater.core.backoff import Backoff
from slackwater.core.types import Key

RETRY = Backoff(first=1.0, most=5.0)
"""Seconds between attempts at an upstream that does not answer, and at a log that does not take a write."""
MOST_ITEMS = 8_192
"""Of one aggregator: one frame's notifications about a table are applied in one step (`hosting.engine.STEP_ROWS`)."""


@dataclass(frozen=True, slots=True)
class Item:
    """One number that is held: a column of the row of a key, within a bound of what it is upstream."""

    upstream: str
    table: str
    column: str
    key: Key
    within: float
