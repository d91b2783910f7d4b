"""Suspension: the queries in doubt, and the notifications when that changes."""

from collections.abc import Callable, Iterable

from slackwater.core.query import StandingQuery
from slackwater.sessions.events import QueriesResumed, QueriesSuspended


class Suspensions:
    """Dependencies of every query, and the doubt that was last published of it.

    `feeds` names the dependencies of a query, which do not change while it is kept; `doubt` gives the reason why one
    of them is in doubt. Dependencies are computed once for each query, not at every notification.
    """

    def __init__(self, feeds: Callable[[StandingQuery], Iterable[str]], doubt: Callable[[str], str | None]) -> None:
        self._feeds_of = feeds
        self._doubt = doubt
        self._feeds: dict[int, tuple[str, ...]] = {}
        self._published: dict[int, str | None] = {}

    def begun(self, queries: Iterable[tuple[int, StandingQuery]]) -> list[QueriesSuspended | QueriesResumed]:
        """Register these queries, or their new versions."""
        begun = []
        for number, query in queries:
            # One that is another from now on goes to the end, as among the registrations.
            self._feeds.pop(number, None)
            self._feeds[number] = tuple(sorted(self._feeds_of(query)))
            self._published.setdefault(number, None)
            begun.append(number)
        return self._review(begun)

    def ended(self, numbers: Iterable[int]) -> None:
        """Forget these queries."""
        for number in numbers:
            self._published.pop(number, None)
            self._feeds.pop(number, None)

    def forget(self) -> None:
        """Start over, with nothing published yet."""
        self._published.clear()
        self._feeds.clear()

    def review(self) -> list[QueriesSuspended | QueriesResumed]:
        """Publish the queries whose doubt began or ended."""
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
            if why == self._published[number]:
                continue
            self._published[number] = why
            if why is None:
                resumed.append(number)
            else:
                suspended.setdefault(why, []).append(number)
        said: list[QueriesSuspended | QueriesResumed] = [
            QueriesSuspended(tuple(numbers), why) for why, numbers in suspended.items()
        ]
        return [*said, QueriesResumed(tuple(resumed))] if resumed else said
