"""Exception hierarchy: one tree with one root.

Every failure that Slackwater itself reports is a `SlackwaterError`; catching that one name catches them all.
A message says what was expected, what came and what to do about it.

    SlackwaterError
    ├── SqlError                 the statement; carries line and column
    │   └── NotSupported         valid, but not supported by this version
    ├── SchemaError              a table's definition or its change
    ├── AlgebraError             an interval, box or region that cannot exist
    ├── SourceError              where updates come from: files, pollers, generators
    ├── LogError                 the log
    │   ├── LogCorrupt           stored bytes are not what was written
    │   ├── LogLocked            another process writes this log
    │   ├── LogFull              no space for an append; nothing of it was kept
    │   ├── OutcomeUnknown       an append that failed half way; only reading the log again shows what was kept
    │   │   └── WriterBroken     the same, and the writer takes no more; only opening the log again settles it
    │   ├── PositionGone         asked for what retention has dropped, or what is not written yet
    │   ├── LogAway              the servers of a log elsewhere do not answer
    │   └── HistoryReplaced      the log goes on from a copy that lacks what was read of it
    ├── StoreError               tables derived from the log: latest, history, quarantine
    ├── ProtocolError            a message between client and node that cannot be understood
    ├── StatisticsError          summaries that do not fit together, or a statistics file that cannot be read
    │   └── TooManyItems         the similarity of all pairs would need too much memory
    ├── PlanningError            a query or a plan that cannot be, or a stored model that does not fit
    │   └── Infeasible           no bound that was asked can be kept; says the tightest that can
    ├── MatchingError            standing joins, or rows for them, that a matcher cannot take
    ├── AnswerTooLarge           a standing join with more pairs of rows than are kept, or than can be looked at
    └── MissingPart              an extra or a program that is not installed

Rooms that talk to others add branches of their own: `TransportError` in `dissemination.transports`, what a server
refused (`Refused`) or answered in a form that is no valid answer (`Misunderstood`) in `client.failures`.
"""


class SlackwaterError(Exception):
    """Base class of every failure that Slackwater itself reports."""


class SqlError(SlackwaterError):
    """An invalid statement, with line and column of the mistake.

    >>> str(SqlError("expected a number after WITHIN", line=2, column=9))
    'line 2, column 9: expected a number after WITHIN'
    """

    def __init__(self, message: str, *, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"


class NotSupported(SqlError):
    """A statement that is understood and refused; the message says which part and what to write instead."""


class SchemaError(SlackwaterError):
    """A table definition that cannot be, or a change of it that is not allowed."""


class AlgebraError(SlackwaterError):
    """An interval, box or region that cannot exist."""


class SourceError(SlackwaterError):
    """A source that cannot be read or understood."""


class LogError(SlackwaterError):
    """The log cannot do what was asked."""


class LogCorrupt(LogError):
    """Bytes in the log are not the bytes that were written."""


class LogLocked(LogError):
    """Another process holds this log for writing."""


class LogFull(LogError):
    """No space for an append: nothing of it was kept, and the next one may succeed."""


class OutcomeUnknown(LogError):
    """An append that failed half way: only reading the log again shows what was kept."""


class WriterBroken(OutcomeUnknown):
    """A writer that takes no more appends: only opening the log again shows what it holds."""


class PositionGone(LogError):
    """A position outside what the log holds now."""


class LogAway(LogError):
    """The servers that keep the log do not answer; they may, later."""


class HistoryReplaced(LogError):
    """The log was replaced, as by a restore from a copy, and lacks records that were read; begin anew."""


class StatisticsError(SlackwaterError):
    """Summaries that cannot be updated, merged or read as asked."""


class TooManyItems(StatisticsError):
    """All pairs of so many items would not fit into memory."""


class PlanningError(SlackwaterError):
    """A query that cannot be planned, or a stored model of other data."""


class Infeasible(PlanningError):
    """No plan keeps the bound: `tightest` is the smallest that some plan keeps, infinite where an item is nowhere."""

    def __init__(self, message: str, *, tightest: float) -> None:
        super().__init__(message)
        self.tightest = tightest

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross processes when many queries are planned on executors.
        return (_infeasible, (str(self), self.tightest))


def _infeasible(message: str, tightest: float) -> Infeasible:
    return Infeasible(message, tightest=tightest)


class MatchingError(SlackwaterError):
    """Standing joins, or rows for them, that a matcher cannot take."""


class AnswerTooLarge(SlackwaterError):
    """A standing join with more pairs of rows than are kept, or than can be looked at in one step."""


class StoreError(SlackwaterError):
    """The folder of latest, history and quarantine cannot do what was asked."""


class ProtocolError(SlackwaterError):
    """A message that is too large, of unknown type, or has impossible content."""


class MissingPart(SlackwaterError):
    """An optional part of the installation is not there; the message says how to get it."""
