"""What a subscriber is told.

Identity and order: a notification is (generation, position, shard, ordinal). *Generation* fences an old
writer, *position* is the log position after the batch that caused it, *shard* and *ordinal* tell apart what
one batch caused. Receiving an identity twice means receiving the same notification twice.
"""

from dataclasses import dataclass
from enum import Enum

from slackwater.core.query import QueryId
from slackwater.core.types import Key, Position, Row


class NotificationKind(Enum):
    """What a notification says about its query."""

    SNAPSHOT = "snapshot"
    UPSERT = "upsert"
    DELETE = "delete"
    VALUE = "value"
    SUSPENDED = "suspended"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """Which notification this is; later ones compare greater."""

    generation: int
    position: Position
    shard: int = 0
    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class Notification:
    """One fact for one standing query; which fields are set follows from its kind.

    VALUE carries `value`; UPSERT `key` and `row`; DELETE `key`; SNAPSHOT `rows` or `value`, and replaces all
    that was known; SUSPENDED and RESUMED a `reason`. `epoch` is the plan under which it was sent.
    """

    identity: Identity
    query: QueryId
    kind: NotificationKind
    epoch: int = 0
    value: float | None = None
    key: Key | None = None
    row: Row | None = None
    rows: tuple[Row, ...] | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        carried = {name for name in ("value", "key", "row", "rows", "reason") if getattr(self, name) is not None}
        if carried not in _CARRIES[self.kind]:
            expected = " or ".join(" and ".join(sorted(fields)) or "nothing" for fields in _CARRIES[self.kind])
            raise ValueError(f"a {self.kind.value} notification carries {expected}, not {sorted(carried)}")


_CARRIES: dict[NotificationKind, tuple[set[str], ...]] = {
    # Without a number, as in VALUE below: the average of no rows.
    NotificationKind.SNAPSHOT: ({"value"}, {"rows"}, set()),
    NotificationKind.UPSERT: ({"key", "row"},),
    NotificationKind.DELETE: ({"key"},),
    # A VALUE without a number is a legal answer: the average of no rows.
    NotificationKind.VALUE: ({"value"}, set()),
    NotificationKind.SUSPENDED: ({"reason"},),
    NotificationKind.RESUMED: ({"reason"}, set()),
}
