"""Pending subscriptions: their registration is not yet confirmed by the log."""

from typing import TypeAlias

from slackwater.core.rights import Grant
from slackwater.sessions.session import Session, SessionSubscription

_Key: TypeAlias = tuple[str, Grant, str | None]
_Waiter: TypeAlias = tuple[Session, SessionSubscription]


class PendingSubscriptions:
    """Pending subscriptions by text and, where given, name; names ignore case."""

    def __init__(self) -> None:
        self._waiters: dict[_Key, dict[tuple[int, int], _Waiter]] = {}
        self._named: dict[str, dict[_Key, None]] = {}
        """What is waited for under each name, in small letters."""

    def __len__(self) -> int:
        return sum(len(waiters) for waiters in self._waiters.values())

    def add(self, session: Session, subscription: SessionSubscription) -> bool:
        """Let a subscription wait; whether it is the first to wait for this."""
        key = _key(subscription.text, subscription.rights, subscription.name)
        first = key not in self._waiters
        self._waiters.setdefault(key, {})[session.connection, subscription.ref] = (session, subscription)
        if first and key[2] is not None:
            self._named.setdefault(key[2], {})[key] = None
        return first

    def remove(self, session: Session, subscription: SessionSubscription) -> None:
        """It waits no longer."""
        key = _key(subscription.text, subscription.rights, subscription.name)
        waiters = self._waiters.get(key)
        if waiters is not None:
            waiters.pop((session.connection, subscription.ref), None)
            if not waiters:
                self._drop(key)

    def of(self, principal: str) -> list[_Waiter]:
        """Those of a principal who wait for anything."""
        waiters = [waiter for some in self._waiters.values() for waiter in some.values()]
        return [waiter for waiter in waiters if waiter[0].principal.name == principal]

    def principals(self, text: str, rights: Grant, name: str | None) -> list[str]:
        """The principals that wait for this, the first to wait first."""
        waiters = self._waiters.get(_key(text, rights, name), {}).values()
        return [session.principal.name for session, _ in waiters]

    def take(self, text: str, rights: Grant, name: str | None) -> list[_Waiter]:
        """Those who wait for this; they wait no longer."""
        return self._drop(_key(text, rights, name))

    def served_by(self, text: str, rights: Grant, name: str | None) -> list[_Waiter]:
        """Take those whom a query with this text and name serves."""
        served = self.take(text, rights, None)
        return served if name is None else served + self.take(text, rights, name)

    def beaten_by(self, text: str, rights: Grant, name: str | None) -> list[_Waiter]:
        """Take those who want this name for another text."""
        if name is None:
            return []
        keys = [key for key in self._named.get(name.lower(), ()) if key[:2] != (text, rights)]
        return [waiter for key in keys for waiter in self._drop(key)]

    def _drop(self, key: _Key) -> list[_Waiter]:
        """Those who wait for this; nobody does from now on."""
        waiters = self._waiters.pop(key, None)
        if waiters is None:
            return []
        if key[2] is not None:
            del self._named[key[2]][key]
            if not self._named[key[2]]:
                del self._named[key[2]]
        return list(waiters.values())


def _key(text: str, rights: Grant, name: str | None) -> _Key:
    return text, rights, None if name is None else name.lower()
