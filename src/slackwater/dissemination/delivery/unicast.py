"""Unicast delivery: each fact is held for each session, and goes out with the session's next frame.

Frames carry the sequence of the session, gaps are made good by the session itself (`sessions.session`), and a session
that stays behind gets the last fact of each key.
"""

from collections.abc import Callable, Iterable

from slackwater.dissemination.delivery.base import AnyRecipient, Delivery, DeliveryContext
from slackwater.dissemination.messages import UNICAST, Fact, SharedFact


class UnicastDelivery(Delivery[AnyRecipient]):
    """The sessions of each query, by connection."""

    name = UNICAST

    def __init__(self, hold: Callable[[AnyRecipient, Fact], None]) -> None:
        self._hold = hold
        self._members: dict[int, dict[int, AnyRecipient]] = {}

    def join(self, query: int, recipient: AnyRecipient) -> None:
        """Hold the query's facts for a session from now on."""
        self._members.setdefault(query, {})[recipient.connection] = recipient

    def leave(self, query: int, recipient: AnyRecipient) -> None:
        """Hold them for it no longer."""
        members = self._members[query]
        del members[recipient.connection]
        if not members:
            del self._members[query]

    def publish(self, query: int, fact: SharedFact) -> None:
        """Hold a fact for every session of the query."""
        for recipient in self._members.get(query, {}).values():
            self._hold(recipient, fact)

    def renew(self, query: int, state: Callable[[AnyRecipient], Iterable[Fact]]) -> None:
        """Hold the whole state for every session of the query."""
        for recipient in list(self._members.get(query, {}).values()):
            for fact in state(recipient):
                self._hold(recipient, fact)


def unicast(context: DeliveryContext[AnyRecipient]) -> Delivery[AnyRecipient]:
    """Every server delivers by unicast."""
    return UnicastDelivery(context.hold)
