"""Which queries are suspended, and what has to be said when that changes."""

from collections.abc import Callable, Iterable

from slackwater.core.query import StandingQuery
from slackwater.server.events import QueriesResumed, QueriesSuspended


class Suspensions:
    """Remembers of every query why it was last said to be in doubt."""

    def __init__(self, doubt: Callable[[StandingQuery], str | None]) -> None:
        self._doubt = doubt
        self._told: dict[int, str | None] = {}

    def begun(self, queries: Iterable[tuple[int, StandingQuery]]) -> list[QueriesSuspended | QueriesResumed]:
        """These queries begin now, or are others from now on."""
        queries = list(queries)
        for number, _ in queries:
            self._told.setdefault(number, None)
        return self.review(queries)

    def ended(self, numbers: Iterable[int]) -> None:
        """These are no more."""
        for number in numbers:
            self._told.pop(number, None)

    def forget(self) -> None:
        """Nobody was told anything yet."""
        self._told.clear()

    def review(self, queries: Iterable[tuple[int, StandingQuery]]) -> list[QueriesSuspended | QueriesResumed]:
        """See which of these queries are in doubt now and were not, or the other way round."""
        suspended: dict[str, list[int]] = {}
        resumed: list[int] = []
        for number, query in queries:
            why = self._doubt(query)
            if number not in self._told or why == self._told[number]:
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
