"""Query registry of a node: standing queries by number, by text and by name.

The same text is one query for all its subscribers. Two nodes may have registered it at the same moment; then the lower
number is used by all of them, because all read the same log.
"""

from bisect import insort
from collections.abc import Iterator

from slackwater.core.query import StandingQuery
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.messages import Snapshot, Value
from slackwater.sessions.resume_buffer import ResumeBuffer
from slackwater.sessions.session import Session


class RegisteredQuery:
    """One registered query with its subscribers and the facts last sent to them."""

    __slots__ = (
        "epoch",
        "former",
        "idle_since",
        "name",
        "number",
        "ours",
        "owner",
        "query",
        "recent",
        "sessions",
        "since",
        "snapshots",
        "suspended",
        "text",
        "value",
        "warm",
        "watched",
    )

    def __init__(
        self, number: int, epoch: int, text: str, owner: str, name: str | None, query: StandingQuery, most_recent: int
    ) -> None:
        self.number = number
        self.epoch = epoch
        self.text = text
        self.owner = owner
        self.name = name
        self.query = query
        self.sessions: dict[int, Session] = {}
        self.since: int | None = None
        """Position from which on the query has this form; None while that step is under way."""
        self.ours = False
        """True if this node drops the query when it has no subscribers."""
        self.idle_since: int | None = None
        self.watched = False
        """True while an idle check is scheduled."""
        self.warm = False
        """Whether anybody has subscribed to it here: only then is what changes remembered."""
        self.recent = ResumeBuffer(most_recent)
        self.value: Value | None = None
        self.former: tuple[int, StandingQuery] | None = None
        """Epoch and form last sent to subscribers, while the step that replaces it is under way."""
        self.suspended: str | None = None
        """Reason of its suspension; None while its guarantee holds."""
        self.snapshots: dict[Encoding, tuple[int, Snapshot]] = {}
        """Encoded answers, and the positions they are of."""

    def replace(self, epoch: int, text: str, name: str | None, query: StandingQuery) -> None:
        """Replace the query by another form, under another plan epoch."""
        self.former = self.former or (self.epoch, self.query)
        self.epoch, self.text, self.name, self.query = epoch, text, name, query
        self.since, self.value = None, None
        self.snapshots.clear()


class QueryRegistry:
    """Index of registered queries."""

    def __init__(self) -> None:
        self._kept: dict[int, RegisteredQuery] = {}
        self._by_text: dict[str, list[int]] = {}
        self._by_name: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[RegisteredQuery]:
        return iter(self._kept.values())

    def get(self, number: int) -> RegisteredQuery | None:
        """The query of this number."""
        return self._kept.get(number)

    def with_text(self, text: str) -> RegisteredQuery | None:
        """The query that subscriptions of this text share."""
        numbers = self._by_text.get(text)
        return self._kept[numbers[0]] if numbers else None

    def named(self, name: str) -> RegisteredQuery | None:
        """The query of this name, in whatever case it is written."""
        number = self._by_name.get(name.lower())
        return None if number is None else self._kept[number]

    def add(self, kept: RegisteredQuery) -> None:
        """Add a query, or index it again after it was replaced."""
        self._kept[kept.number] = kept
        insort(self._by_text.setdefault(kept.text, []), kept.number)
        if kept.name is not None:
            self._by_name.setdefault(kept.name.lower(), kept.number)

    def remove(self, number: int) -> RegisteredQuery | None:
        """Remove a query."""
        kept = self._kept.pop(number, None)
        if kept is None:
            return None
        numbers = self._by_text[kept.text]
        numbers.remove(number)
        if not numbers:
            del self._by_text[kept.text]
        if kept.name is not None and self._by_name.get(kept.name.lower()) == number:
            del self._by_name[kept.name.lower()]
        return kept
