"""DENSITY trigger: relabel when an event costs more than α times its cost when the labels were made.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, section
    V-A: the trigger of this name.
"""

from dataclasses import dataclass

from experiments.push_pull.drift import Cover, Events


@dataclass(frozen=True, slots=True)
class Density:
    """Fires when the cost of an event since labelling is above α times that on the labelled events; α > 1."""

    alpha: float = 2.0

    def fires(self, labelled: Events, since: Events, cover: Cover) -> bool:
        """True when the labels are due to be made anew."""
        if not len(since):
            return False
        was = float(cover.paid(labelled).mean()) if len(labelled) else 0.0
        return float(cover.paid(since).mean()) > self.alpha * was
