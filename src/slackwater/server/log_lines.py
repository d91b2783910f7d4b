"""Rate limit of log lines: one place in the program reports so often in a while, then its reports are counted.

A stranger that causes an error a thousand times a second would otherwise fill the disk that the log needs. Reports are
told apart by logger, level and place in the source: messages hold what the stranger sent, so they are no measure.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO, TypeAlias

MOST_LINES = 10
WINDOW_SECONDS = 10.0
LONGEST_LINE = 16_384
"""Characters of one report, its traceback included."""

Place: TypeAlias = tuple[str, int, str, int]
"""Logger, level, file and line."""


@dataclass(slots=True)
class _Window:
    began: float
    passed: int = 0
    held: int = 0
    text: str = ""
    """The message of a report that was counted alone."""


class LineLimiter:
    """Decides which reports are written; pure, the time is an argument.

    >>> limiter = LineLimiter(most=1, seconds=10.0)
    >>> place = ("slackwater", 30, "x.py", 7)
    >>> [limiter.passes(place, "no room", now) for now in (0.0, 1.0, 2.0)]
    [True, False, False]
    >>> limiter.summaries(10.0)
    [(('slackwater', 30, 'x.py', 7), '… and 2 more like it: no room')]
    """

    def __init__(self, most: int = MOST_LINES, seconds: float = WINDOW_SECONDS) -> None:
        self._most = most
        self._seconds = seconds
        self._windows: dict[Place, _Window] = {}

    def passes(self, place: Place, text: str, now: float) -> bool:
        """True if this report is to be written; ask for summaries first."""
        window = self._windows.setdefault(place, _Window(now))
        if window.passed < self._most:
            window.passed += 1
            return True
        window.held, window.text = window.held + 1, text
        return False

    def summaries(self, now: float, *, every: bool = False) -> list[tuple[Place, str]]:
        """A line for each place of which reports were only counted, once its while is over, or now."""
        over = [place for place, window in self._windows.items() if every or now >= window.began + self._seconds]
        windows = [(place, self._windows.pop(place)) for place in over]
        return [(place, f"… and {one.held} more like it: {one.text}") for place, one in windows if one.held]

    def next_summary(self) -> float | None:
        """When the next summary is due; None while nothing is held back."""
        return min((one.began + self._seconds for one in self._windows.values() if one.held), default=None)


class LimitedHandler(logging.StreamHandler[TextIO]):
    """Log handler that writes to a stream what a `LineLimiter` lets pass, and its summaries in time."""

    def __init__(
        self,
        stream: TextIO | None = None,
        limiter: LineLimiter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream or sys.stderr)
        self._limiter = limiter or LineLimiter()
        self._clock = clock
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a report, or count it; called under the lock of the handler."""
        now = self._clock()
        self._summarise(now)
        place = (record.name, record.levelno, record.pathname, record.lineno)
        if self._limiter.passes(place, record.getMessage()[:200], now):
            super().emit(record)
        elif self._timer is None:
            self._begin_timer(now)

    def format(self, record: logging.LogRecord) -> str:
        """A report, cut where it is far too long."""
        text = super().format(record)
        return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]} … ({len(text)} characters)"

    def close(self) -> None:
        """Write what is left to say."""
        with self.lock or threading.RLock():
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._summarise(self._clock(), every=True)
        super().close()

    def _summarise(self, now: float, *, every: bool = False) -> None:
        for (name, level, path, line), text in self._limiter.summaries(now, every=every):
            super().emit(logging.LogRecord(name, level, path, line, text, None, None))

    def _begin_timer(self, now: float) -> None:
        due = self._limiter.next_summary()
        if due is None:
            return
        self._timer = threading.Timer(max(0.0, due - now), self._look)
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:
            # No thread to be had: the next report brings the summary.
            self._timer = None

    def _look(self) -> None:
        self.acquire()
        try:
            self._timer = None
            now = self._clock()
            self._summarise(now)
            self._begin_timer(now)
        finally:
            self.release()
