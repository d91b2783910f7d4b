"""Receipt of an intake: what became of rows, and what is promised of each."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slackwater.admission.deduplication import SMALLEST_CONTENT
from slackwater.core.types import Position


@dataclass(frozen=True, slots=True)
class Promises:
    """Of the accepted rows, how many have which identity; the first four add up to them.

    `by_number`, `by_request` and `by_content` are taken exactly once: a repetition within the window is a repeat. Rows
    `at_least_once` have no identity: a repetition is taken again. `outside_window` counts refused rows, of which it is
    not known whether they were taken. The numbers of the source are known from `known_from` on.
    """

    by_number: int = 0
    by_request: int = 0
    by_content: int = 0
    at_least_once: int = 0
    outside_window: int = 0
    known_from: int = 0

    @classmethod
    def of(cls, sequences: npt.NDArray[np.int64], *, keyed: bool) -> "Promises":
        """Count the identities of accepted rows by their numbers; `keyed`: they came under an idempotency key."""
        if not len(sequences) or sequences.min() >= 0:
            return cls(len(sequences))
        numbered, nameless = int((sequences >= 0).sum()), int(np.sum(sequences < SMALLEST_CONTENT))
        others = len(sequences) - numbered
        if keyed:
            return cls(numbered, by_request=others)
        return cls(numbered, by_content=others - nameless, at_least_once=nameless)

    def plus(self, other: "Promises") -> "Promises":
        """Both together."""
        return Promises(
            self.by_number + other.by_number,
            self.by_request + other.by_request,
            self.by_content + other.by_content,
            self.at_least_once + other.at_least_once,
            self.outside_window + other.outside_window,
            max(self.known_from, other.known_from),
        )


@dataclass(frozen=True, slots=True)
class IntakeReceipt:
    """Acknowledgement of an append, once it is durable; `position` is the end of the log then.

    `request_repeated`: the request had been taken under its idempotency key, so that all its rows are repeats.
    """

    accepted: int
    quarantined: int
    repeats: int
    position: Position
    given_up: int = 0
    ignored_columns: tuple[str, ...] = ()
    promised: Promises = Promises()
    request_repeated: bool = False

    @property
    def rows(self) -> int:
        """All rows that came."""
        return self.accepted + self.quarantined + self.repeats

    def plus(self, other: "IntakeReceipt") -> "IntakeReceipt":
        """Both together; the other one is the later."""
        return replace(
            other,
            accepted=self.accepted + other.accepted,
            quarantined=self.quarantined + other.quarantined,
            repeats=self.repeats + other.repeats,
            given_up=self.given_up + other.given_up,
            ignored_columns=tuple(dict.fromkeys((*self.ignored_columns, *other.ignored_columns))),
            promised=self.promised.plus(other.promised),
        )
