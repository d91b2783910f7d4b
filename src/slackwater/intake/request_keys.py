"""Idempotency keys: the requests of one source to one table that were taken, with a window in time.

A key is remembered for `KEPT_FOR` by the log clock. A key out of its window stands for no request. It is forgotten only
by a time that stands in the log: the wall clock may have been ahead by mistake. At most `MOST_KEYS` are remembered: a
request with one more is refused, as forgetting a younger key would take a repetition of its request for a new one. Of
key and content only digests are held.
"""

import hashlib
from typing import TypeAlias

from slackwater.core.arrival import RequestKey
from slackwater.core.errors import SlackwaterError
from slackwater.core.types import Instant

KEPT_FOR = 24 * 3600 * 1_000_000
"""Microseconds of the log clock for which a key is remembered."""
MOST_KEYS = 100_000
"""Keys that are remembered for a source of a table."""

PlainKey: TypeAlias = tuple[bytes, bytes, int]
"""A key as it is stored: its digest, the digest of the content, the moment of admission."""


class RequestKeyReused(SlackwaterError):
    """A key came again with another content."""


class TooManyRequestKeys(SlackwaterError):
    """No further key can be remembered for now."""


class RequestKeys:
    """The keys of one table and source, the oldest first: stamps of admission rise."""

    def __init__(self, plain: list[PlainKey] | None = None) -> None:
        self._taken = {key: (content, Instant(at)) for key, content, at in plain or []}

    def __len__(self) -> int:
        return len(self._taken)

    def is_taken(self, request: RequestKey, now: Instant) -> bool:
        """True if the request was taken; a key that stands for another content is `RequestKeyReused`."""
        known = self._taken.get(_digest(request.key))
        if known is None or known[1] < now - KEPT_FOR:
            return False
        if known[0] != request.digest:
            raise RequestKeyReused(
                f"the idempotency key {request.key!r} was used for another request: "
                f"send the same content under it, or take a new key"
            )
        return True

    def forget(self, now: Instant) -> None:
        """Forget what is out of the window."""
        while self._taken and next(iter(self._taken.values()))[1] < now - KEPT_FOR:
            del self._taken[next(iter(self._taken))]

    def check_room(self, now: Instant) -> None:
        """Without room for one more key, `TooManyRequestKeys`."""
        if len(self._taken) >= MOST_KEYS and next(iter(self._taken.values()))[1] >= now - KEPT_FOR:
            raise TooManyRequestKeys(
                f"{MOST_KEYS:,} idempotency keys of this source were used within {KEPT_FOR // 3_600_000_000} hours, "
                f"the most that are remembered: send larger requests, or number the rows"
            )

    def add(self, request: RequestKey, at: Instant) -> None:
        """Remember a request that was taken."""
        key = _digest(request.key)
        # A key that is used anew after its window takes its place among the youngest.
        self._taken.pop(key, None)
        self._taken[key] = (request.digest, at)

    def plain(self) -> list[PlainKey]:
        """As it is stored."""
        return [(key, content, int(at)) for key, (content, at) in self._taken.items()]


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=16).digest()
