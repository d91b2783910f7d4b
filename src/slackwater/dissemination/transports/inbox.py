"""Member inbox of a channel: a queue bounded by bytes, with gap detection, for every transport."""

import asyncio
from collections import deque

from slackwater.dissemination.transports.base import Carried, Closed, Ended, Heard, How, Missed, TransportLimits, size


class Inbox:
    """The messages of one membership, in order."""

    def __init__(self, limits: TransportLimits, expected: int) -> None:
        self._limits = limits
        self._expected = expected
        self._waiting: deque[tuple[Heard | Missed, int]] = deque()
        self._bytes = 0
        self._arrived = asyncio.Event()
        self.ended: Ended | None = None

    def put(self, sequence: int, message: Carried) -> None:
        """Put a message; repeats are ignored, a gap before it is reported."""
        if self.ended is not None or sequence < self._expected:
            return
        self.reached(sequence)
        self._expected = sequence + 1
        self._add(Heard(sequence, message), size(message))

    def reached(self, sequence: int) -> None:
        """Note the number of messages published so far."""
        if self.ended is None and sequence > self._expected:
            self._add(Missed(sequence - self._expected), 0)
            self._expected = sequence

    def _add(self, what: Heard | Missed, weight: int) -> None:
        if self._bytes + weight > self._limits.unsent:
            self.end(Ended(How.OVERFLOW, True, f"the member does not read: {self._bytes} bytes wait"))
            return
        self._waiting.append((what, weight))
        self._bytes += weight
        self._arrived.set()

    def end(self, ended: Ended) -> None:
        """End the queue."""
        if self.ended is None:
            self.ended = ended
        self._arrived.set()

    async def take(self) -> Heard | Missed:
        """The next one; raises `Closed` after the last."""
        while not self._waiting:
            if self.ended is not None:
                raise Closed(self.ended)
            self._arrived.clear()
            await self._arrived.wait()
        what, weight = self._waiting.popleft()
        self._bytes -= weight
        return what
