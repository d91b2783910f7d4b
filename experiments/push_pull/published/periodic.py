"""PERIODIC trigger: relabel after a fixed number of events, the plain baseline."""

from dataclasses import dataclass

from experiments.push_pull.drift import Cover, Events


@dataclass(frozen=True, slots=True)
class Periodic:
    """Fires when so many events have come since; 0 is never, which is a static labelling."""

    period: int

    def fires(self, labelled: Events, since: Events, cover: Cover) -> bool:
        """True once the period is over."""
        return 0 < self.period <= len(since)
