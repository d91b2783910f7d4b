"""Response values: query answers, receipts, explanations and standing queries, decoded from the server."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from slackwater.client.columns import Cell, Columns, DataFrame, Record

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a one-shot query: rows that were right at `as_of`, a position of the log."""

    columns: Columns
    rows: tuple[Record, ...]
    as_of: int

    def __iter__(self) -> Iterator[Record]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def value(self) -> Cell:
        """The one cell of an answer that has one row and one column."""
        if len(self.rows) != 1 or len(self.columns.names) != 1:
            raise ValueError(
                f"value is for one row with one column, not {len(self.rows)} with {len(self.columns.names)}: use rows"
            )
        return self.rows[0][self.columns.names[0]]

    def to_arrow(self) -> "pa.Table":
        """As an Arrow table."""
        return self.columns.arrow(self.rows)

    def to_pandas(self) -> DataFrame:
        """As a data frame."""
        return self.columns.pandas(self.rows)


class Promised(msgspec.Struct, frozen=True):
    """What the server promises of the accepted rows; the first four add up to them.

    Rows `by_number`, `by_request` and `by_content` are taken exactly once, rows `at_least_once` again with each
    repetition. `outside_window` counts refused rows, of which it is not known whether they had been taken. The numbers
    of the source are known from `known_from` on.
    """

    by_number: int = 0
    by_request: int = 0
    by_content: int = 0
    at_least_once: int = 0
    outside_window: int = 0
    known_from: int = 0

    def plus(self, other: "Promised") -> "Promised":
        """Both together."""
        return Promised(
            self.by_number + other.by_number,
            self.by_request + other.by_request,
            self.by_content + other.by_content,
            self.at_least_once + other.at_least_once,
            self.outside_window + other.outside_window,
            max(self.known_from, other.known_from),
        )


NO_PROMISE = Promised()


@dataclass(frozen=True, slots=True)
class Receipt:
    """Outcome of sent rows: all of it durable, before `position` of the log, and what is promised of each."""

    accepted: int
    quarantined: int
    repeats: int
    position: int
    promised: Promised = NO_PROMISE


class Explanation(msgspec.Struct, frozen=True):
    """Explanation of a statement, for people and as a tree."""

    text: str
    tree: dict[str, Any]

    def __str__(self) -> str:
        return self.text


class Standing(msgspec.Struct, frozen=True):
    """A standing query of a server, with its measurements since the server began."""

    number: int
    sql: str
    table: str
    kind: str
    owner: str
    epoch: int
    position: int
    name: str | None = None
    within: float | None = None
    fidelity: float | None = None
    host: str = "node"
    pulls: int | None = None
    pulls_an_hour: float | None = None
    predicted_pulls_an_hour: float | None = None
    delivered: float | None = None
    notifications: int = 0
    subscribers: int = 0


# The bodies as they come.


class AnswerBodyColumn(msgspec.Struct, frozen=True):
    """A column of an answer."""

    name: str
    type: str


class AnswerBody(msgspec.Struct, frozen=True):
    """The answer to a question."""

    columns: list[AnswerBodyColumn]
    rows: list[list[Any]]
    as_of: int

    def answer(self) -> Answer:
        """As a program wants it."""
        columns = Columns(tuple(one.name for one in self.columns), tuple(one.type for one in self.columns))
        return Answer(columns, columns.records(self.rows), self.as_of)


class ReceiptBody(msgspec.Struct, frozen=True):
    """The answer to rows."""

    accepted: int
    quarantined: int
    repeats: int
    position: int
    promised: Promised = NO_PROMISE


class TableColumns(msgspec.Struct, frozen=True):
    """The columns of a table, in their order."""

    columns: list[AnswerBodyColumn]


class StandingBody(msgspec.Struct, frozen=True):
    """A page of standing queries."""

    subscriptions: list[Standing]
    next: int | None = None


class HealthBody(msgspec.Struct, frozen=True):
    """That a server answers."""

    status: str
