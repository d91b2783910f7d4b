"""Poll state of one source, without I/O: its last response, and staleness."""

MISSED_PERIODS = 3
"""A source that brought nothing for so many periods is in doubt."""


class PolledState:
    """Times are microseconds of any clock that does not go back."""

    def __init__(self, name: str, every: int) -> None:
        self.name = name
        self._every = every
        self._heard: int | None = None
        self._why = "it has not been polled yet"

    def succeeded(self, now: int) -> None:
        """Note a response whose rows are applied."""
        self._heard, self._why = now, ""

    def failed(self, why: str) -> None:
        """Note a missing or unusable response."""
        self._why = why

    def doubt(self, now: int) -> str | None:
        """Why its rows cannot be relied on; None where they can.

        >>> bank = PolledState("bank", every=10)
        >>> bank.succeeded(100)
        >>> bank.failed("no answer")
        >>> bank.doubt(130), bank.doubt(131)
        (None, 'source bank has not answered for 3 periods: no answer')
        """
        if self._heard is None:
            return f"source {self.name} has not answered yet: {self._why}"
        if now - self._heard > MISSED_PERIODS * self._every:
            return f"source {self.name} has not answered for {MISSED_PERIODS} periods: {self._why or 'it is slow'}"
        return None
