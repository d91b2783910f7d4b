"""Update and change: a row as it came in, and its effect on the latest state.

Batches travel as Arrow columns (`core.arrow`); these values are the same thing one at a time, for the edges,
the tests and the oracles.
"""

from dataclasses import dataclass
from enum import IntEnum

from slackwater.core.types import Instant, Row


class Operation(IntEnum):
    """Effect of an update on the row of its key. The numbers are stored in the log: never reuse one."""

    UPSERT = 0
    DELETE = 1


@dataclass(frozen=True, slots=True)
class Origin:
    """Identity of an update: its source and its sequence number there. Equal origins are the same update."""

    source: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Update:
    """One admitted record: the whole row as it now is, or its deletion (then only the key columns count)."""

    table: str
    row: Row
    event_time: Instant
    origin: Origin
    operation: Operation = Operation.UPSERT

    @property
    def rank(self) -> tuple[Instant, str, int]:
        """Order of the updates of one key: the greatest rank is the latest.

        >>> older = Update("t", ("a", 1.0), Instant(5), Origin("s", 9))
        >>> newer = Update("t", ("a", 2.0), Instant(6), Origin("s", 1))
        >>> max(older, newer, key=lambda update: update.rank).row
        ('a', 2.0)
        """
        return (self.event_time, self.origin.source, self.origin.sequence)
