"""What a node says of those that its rows come from."""

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
    """How often a source that is pulled was asked."""
