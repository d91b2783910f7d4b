"""Turns of questions at the workers: the next caller's turn comes before one caller's next question.

Design
    A question is *fresh* until it has run for a while (`FRESH_SECONDS` of the pool), and *long* after that. Only so
    many fresh questions run at the same time; long ones give their place to others and run on beside them, up to the
    number of workers. So a few questions that run to their limit keep nobody waiting. Callers that wait take turns,
    and while several have questions none has all the workers.

    Pure state: tickets are any hashable values, and time passes when the pool says so.
"""

from collections import Counter, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Ticket = TypeVar("Ticket", bound=Hashable)


class Turns(Generic[Ticket]):
    """Tickets that wait and run, of `workers` at most, of which `fresh` at most are fresh."""

    def __init__(self, fresh: int, workers: int) -> None:
        self._fresh, self._workers = fresh, workers
        self._waiting: dict[str, deque[Ticket]] = {}
        self._running: dict[Ticket, str] = {}
        self._long: set[Ticket] = set()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._running)

    def enter(self, caller: str, ticket: Ticket) -> None:
        """A question of a caller waits for its turn."""
        self._waiting.setdefault(caller, deque()).append(ticket)

    def next(self) -> Ticket | None:
        """Whose turn it is; None where nobody waits, or everybody has to."""
        if len(self._running) >= self._workers or len(self._running) - len(self._long) >= self._fresh:
            return None
        running = Counter(self._running.values())
        last_place = len(self._running) == self._workers - 1
        for caller, tickets in self._waiting.items():
            if last_place and self._workers > 1 and running[caller] == len(self._running):
                # All that runs is this caller's; the last place is for others.
                continue
            ticket = tickets.popleft()
            del self._waiting[caller]
            if tickets:
                # Behind the other callers.
                self._waiting[caller] = tickets
            self._running[ticket] = caller
            return ticket
        return None

    def grow_long(self, ticket: Ticket) -> None:
        """A question has run for a while."""
        if ticket in self._running:
            self._long.add(ticket)

    def leave(self, caller: str, ticket: Ticket) -> None:
        """A question ended, or does not wait any more."""
        self._long.discard(ticket)
        if self._running.pop(ticket, None) is None and ticket in self._waiting.get(caller, ()):
            self._waiting[caller].remove(ticket)
            if not self._waiting[caller]:
                del self._waiting[caller]

    def dismiss(self) -> list[Ticket]:
        """Nobody waits any more; those who did."""
        dismissed = [ticket for tickets in self._waiting.values() for ticket in tickets]
        self._waiting.clear()
        return dismissed
