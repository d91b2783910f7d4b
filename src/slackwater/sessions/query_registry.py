"""Query registry of a node: standing queries by number, by text and by name.

The same text is one query for all who ask for it under the same rights. Two nodes may have registered it at the same
moment; then the lower number is used by all of them, because all read the same log.
"""

from collections.abc import Callable, Iterator

from slackwater.core.query import StandingQuery
from slackwater.core.rights import EVERY_ROW, Grant
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.messages import Snapshot, Value
from slackwater.hosting.registrations import Registrations
from slackwater.hosting.step import Registration
from slackwater.kinds.cache.query import as_cache
from slackwater.sessions.resume_buffer import ResumeBuffer
from slackwater.sessions.session import Session


class RegisteredQuery:
    """One registered query with its subscribers and the facts last sent to them."""

    __slots__ = (
        "_load",
        "_query",
        "former",
        "idle_since",
        "ours",
        "recent",
        "registration",
        "sessions",
        "since",
        "snapshots",
        "suspended",
        "value",
        "warm",
        "watched",
    )

    def __init__(
        self,
        registration: Registration,
        query: StandingQuery | None,
        most_recent: int,
        load: Callable[[int], StandingQuery],
    ) -> None:
        self.registration = registration
        self._query = query
        self._load = load
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

    @property
    def query(self) -> StandingQuery:
        """The query itself; `load` gives the one that is registered, when it is asked for first."""
        if self._query is None:
            self._query = self._load(self.number)
        return self._query

    @property
    def number(self) -> int:
        """Its number."""
        return self.registration.number

    @property
    def epoch(self) -> int:
        """The epoch of its plan."""
        return self.registration.epoch

    @property
    def text(self) -> str:
        """The text that it is registered under."""
        return self.registration.text

    @property
    def name(self) -> str | None:
        """What its owner calls it."""
        return self.registration.name

    @property
    def rights(self) -> Grant:
        """The rights that it is conjoined with."""
        return self.registration.rights

    def replace(self, registration: Registration, query: StandingQuery) -> None:
        """Take on another form, under another plan."""
        self.former = self.former or (self.epoch, self.query)
        self.registration, self._query = registration, query
        self.since, self.value = None, None
        self.snapshots.clear()


class QueryRegistry:
    """A view of the registrations of a host: those that its sessions have been told of, with their state."""

    def __init__(self, registry: Callable[[], Registrations]) -> None:
        self._registry = registry
        self._kept: dict[int, RegisteredQuery] = {}
        self.caches: dict[int, RegisteredQuery] = {}
        """Those that are caches of clients; they are looked at several times a second."""

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[RegisteredQuery]:
        return iter(self._kept.values())

    def load(self, number: int) -> StandingQuery:
        """The registered query of a number, decoded anew."""
        return self._registry().query(number)

    def get(self, number: int) -> RegisteredQuery | None:
        """The query of this number."""
        return self._kept.get(number)

    def with_text(self, text: str, rights: Grant = EVERY_ROW) -> RegisteredQuery | None:
        """The query that all use who ask for this text under these rights."""
        numbers = self._registry().numbers(text, rights)
        return next((self._kept[number] for number in numbers if number in self._kept), None)

    def named(self, name: str) -> RegisteredQuery | None:
        """The query of this name, in whatever case it is written."""
        known = self._registry().named(name)
        return None if known is None else self._kept.get(known.number)

    def add(self, kept: RegisteredQuery) -> None:
        """Keep a query."""
        self._kept[kept.number] = kept
        if as_cache(kept.query) is None:
            self.caches.pop(kept.number, None)
        else:
            self.caches[kept.number] = kept

    def remove(self, number: int) -> RegisteredQuery | None:
        """Keep it no longer."""
        self.caches.pop(number, None)
        return self._kept.pop(number, None)
