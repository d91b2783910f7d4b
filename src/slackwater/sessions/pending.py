"""Pending subscriptions: their registration is not yet confirmed by the log."""

from typing import TypeAlias

from slackwater.sessions.session import Session, SessionSubscription

_Key: TypeAlias = tuple[str, str | None]
_Waiter: TypeAlias = tuple[Session, SessionSubscription]


class PendingSubscriptions:
    """Pending subscriptions by text and, where given, name; names ignore case."""

    def __init__(self) -> None:
        self._waiters: dict[_Key, dict[tuple[int, int], _Waiter]] = {}

    def __len__(self) -> int:
        return sum(len(waiters) for waiters in self._waiters.values())

    def add(self, session: Session, subscription: SessionSubscription) -> bool:
        """Add a subscription; True if it is the first for its text and name."""
        key = _key(subscription.text, subscription.name)
        first = key not in self._waiters
        self._waiters.setdefault(key, {})[session.connection, subscription.ref] = (session, subscription)
        return first

    def remove(self, session: Session, subscription: SessionSubscription) -> None:
        """Remove a subscription."""
        key = _key(subscription.text, subscription.name)
        waiters = self._waiters.get(key)
        if waiters is not None:
            waiters.pop((session.connection, subscription.ref), None)
            if not waiters:
                del self._waiters[key]

    def has_any(self, text: str, name: str | None) -> bool:
        """True if a subscription is pending for this."""
        return _key(text, name) in self._waiters

    def take(self, text: str, name: str | None) -> list[_Waiter]:
        """Remove and return the subscriptions pending for this."""
        return list(self._waiters.pop(_key(text, name), {}).values())

    def served_by(self, text: str, name: str | None) -> list[_Waiter]:
        """Take the subscriptions that a query with this text and name serves."""
        served = self.take(text, None)
        return served if name is None else served + self.take(text, name)

    def beaten_by(self, text: str, name: str | None) -> list[_Waiter]:
        """Take the subscriptions that want this name for another text."""
        if name is None:
            return []
        keys = [key for key in self._waiters if key[1] == name.lower() and key[0] != text]
        return [waiter for key in keys for waiter in self.take(*key)]


def _key(text: str, name: str | None) -> _Key:
    return text, None if name is None else name.lower()
