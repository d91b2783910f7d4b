"""Poll schedule, without I/O: exponential back-off, token bucket, conditional requests, Retry-After.

Clock and random generator are arguments, so every schedule can be tested to the microsecond.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from slackwater.core.arrival import Arrival
from slackwater.core.backoff import Backoff
from slackwater.core.clock import Clock
from slackwater.core.errors import SourceError
from slackwater.core.types import Instant, instant

_SECOND = 1_000_000
_LONGEST_VALIDATOR = 1_024
_USUAL_BACKOFF = Backoff()


class TokenBucket:
    """A rate limit: `rate` requests a second on average, up to `burst` at once.

    >>> from slackwater.core import ManualClock
    >>> clock = ManualClock()
    >>> bucket = TokenBucket(rate=2, burst=1, clock=clock)
    >>> bucket.take(), bucket.take(), bucket.wait()
    (True, False, 0.5)
    >>> clock.sleep(0.5)
    >>> bucket.take()
    True
    """

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        if not (0 < rate < math.inf and 1 <= burst < math.inf):
            raise SourceError(f"a rate limit needs a rate above 0 and a burst of 1 or more, not {rate} and {burst}")
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._at = clock.now()

    def wait(self) -> float:
        """Seconds until a request is allowed."""
        self._refill()
        missing = 1 - self._tokens
        # Rounded up to a microsecond, the clock's grain: after this wait there is a token.
        return math.ceil(missing / self._rate * _SECOND) / _SECOND if missing > 0 else 0.0

    def take(self) -> bool:
        """Use up one request if one is allowed now."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _refill(self) -> None:
        now = self._clock.now()
        self._tokens = min(self._burst, self._tokens + (now - self._at) / _SECOND * self._rate)
        self._at = now


@dataclass(frozen=True, slots=True)
class Validators:
    """Cache validators (ETag, Last-Modified) of the last answer, for conditional requests.

    >>> Validators().after({"etag": '"a1"'}).headers()
    {'If-None-Match': '"a1"'}
    """

    etag: str | None = None
    last_modified: str | None = None

    def headers(self) -> dict[str, str]:
        """The headers of a conditional request."""
        conditions = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in conditions.items() if value is not None}

    def after(self, headers: Mapping[str, str]) -> "Validators":
        """The validators of a new answer; headers that it lacks are dropped."""
        return Validators(_sendable(headers.get("etag")), _sendable(headers.get("last-modified")))


def _sendable(value: str | None) -> str | None:
    """True if a validator from an untrusted server is safe to send back."""
    if value is None or len(value) > _LONGEST_VALIDATOR or not value.isascii() or not value.isprintable():
        return None
    return value


def retry_after(value: str | None, now: Instant, most: float) -> float | None:
    """Seconds to wait by a `Retry-After` header, at most `most`; None when the header is not usable.

    >>> retry_after("120", Instant(0), most=60), retry_after("Thu, 01 Jan 1970 00:00:07 GMT", Instant(0), most=60)
    (60, 7.0)
    >>> retry_after("soon", Instant(0), most=60)
    """
    if value is None or len(value) > 100:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(int(text), most)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max(0.0, (instant(when) - now) / _SECOND), most)


@dataclass(frozen=True, slots=True)
class PollOptions:
    """How to poll.

    `every` is the period in seconds, from the start of one request to the start of the next. `timeout` covers a
    whole request, from connecting to the last byte. `rate` and `burst` limit requests (for servers that allow so
    many a second, retries included). `rows_at` is the path to the rows inside a JSON answer: `("data", "items")`.
    `only_changes` leaves out rows that were in the previous answer word for word. `longest_suspension` caps what a
    server may ask for with Retry-After.
    """

    every: float = 1.0
    timeout: float = 10.0
    largest_body: int = 16 * 1024 * 1024
    most_redirects: int = 5
    backoff: Backoff = _USUAL_BACKOFF
    rate: float = 10.0
    burst: float = 1.0
    longest_suspension: float = 3600.0
    rows_at: tuple[str, ...] = ()
    only_changes: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    trust_environment: bool = True

    def __post_init__(self) -> None:
        for name in ("every", "timeout", "largest_body", "longest_suspension"):
            if not 0 < getattr(self, name) < math.inf:
                raise SourceError(f"{name} of a poller must be above 0, not {getattr(self, name)}")
        if not 0 <= self.most_redirects <= 20:
            raise SourceError(f"a poller follows 0 to 20 redirects, not {self.most_redirects}")


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer with rows (perhaps none that changed)."""

    arrivals: tuple[Arrival, ...]

    @property
    def rows(self) -> int:
        """How many rows came, those that were refused not counted."""
        return sum(int(arrival.batch.num_rows) for arrival in self.arrivals)


@dataclass(frozen=True, slots=True)
class NotModified:
    """Not modified (304)."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed request: the reason, the number of failures in a row, and the time of the next try."""

    reason: str
    detail: str
    failures: int
    retry_in: float


@dataclass(frozen=True, slots=True)
class Suspended:
    """Polling is suspended until then (Retry-After)."""

    until: Instant
    detail: str
    failures: int


PollOutcome: TypeAlias = Fetched | NotModified | Failed | Suspended


@dataclass(frozen=True, slots=True)
class PollProgress:
    """State of a poller between two requests; each request makes the next one."""

    validators: Validators = Validators()
    failures: int = 0

    def succeeded(self, validators: Validators) -> "PollProgress":
        """After an answer."""
        return PollProgress(validators)

    def failed(self) -> "PollProgress":
        """After a failure: what was known of the last answer still holds."""
        return replace(self, failures=self.failures + 1)
