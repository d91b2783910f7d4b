"""Which queries are suspended, and what has to be said when that changes."""

from collections.abc import Callable, Iterable

from slackwater.core.query import StandingQuery
from slackwater.sessions.events import QueriesResumed, QueriesSuspended


class Suspensions:
    """Remembers of every query what it depends on, and why it was last said to be in doubt.

    `feeds` gives the names of what a query depends on, which do not change while it is kept; `doubt` says why one of
    them cannot be relied on. What is held is looked at once for each query, and not whenever something is heard.
    """

    def __init__(self, feeds: Callable[[StandingQuery], Iterable[str]], doubt: Callable[[str], str | None]) -> None:
        self._feeds_of = feeds
        self._doubt = doubt
        self._feeds: dict[int, tuple[str, ...]] = {}
        self._told: dict[int, str | None] = {}

    def begun(self, queries: Iterable[tuple[int, StandingQuery]]) -> list[QueriesSuspended | QueriesResumed]:
        """These queries begin now, or are others from now on."""
        begun = []
        for number, query in queries:
            # One that is another from now on goes to the end, as among the registrations.
            self._feeds.pop(number, None)
            self._feeds[number] = tuple(sorted(self._feeds_of(query)))
            self._told.setdefault(number, None)
            begun.append(number)
        return self._review(begun)

    def ended(self, numbers: Iterable[int]) -> None:
        """These are no more."""
        for number in numbers:
            self._told.pop(number, None)
            self._feeds.pop(number, None)

    def forget(self) -> None:
        """Nobody was told anything yet."""
        self._told.clear()
        self._feeds.clear()

    def review(self) -> list[QueriesSuspended | QueriesResumed]:
        """See which queries are in doubt now and were not, or the other way round."""
        return self._review(self._feeds)

    def _review(self, numbers: Iterable[int]) -> list[QueriesSuspended | QueriesResumed]:
        doubts: dict[str, str | None] = {}
        suspended: dict[str, list[int]] = {}
        resumed: list[int] = []
        for number in numbers:
            why = None
            for feed in self._feeds[number]:
                if feed not in doubts:
                    doubts[feed] = self._doubt(feed)
                why = doubts[feed]
                if why is not None:
                    break
            if why == self._told[number]:
                continue
            self._told[number] = why
            if why is None:
                resumed.append(number)
            else:
                suspended.setdefault(why, []).append(number)
        said: list[QueriesSuspended | QueriesResumed] = [
            QueriesSuspended(tuple(numbers), why) for why, numbers in suspended.items()
        ]
        return [*said, QueriesResumed(tuple(resumed))] if resumed else said
