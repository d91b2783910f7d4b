"""Label anew after so many events, whatever they were: the plain rival of the triggers."""

from dataclasses import dataclass

from experiments.push_pull.drift import Cover, Events


@dataclass(frozen=True, slots=True)
class Periodic:
    """Fires when so many events have come since; 0 is never, which is a static labelling."""

    period: int

    def fires(self, labelled: Events, since: Events, cover: Cover) -> bool:
        """Whether it is time."""
        return 0 < self.period <= len(since)
