"""DYNPROP trigger: as DYNNAIVE, with a query's weight split equally among the regions it touches.

References
    A. Bagchi, A. Chaudhary, M. T. Goodrich, C. Li, M. Shmueli-Scheuer, Achieving communication efficiency through
    push-pull partitioning of semantic spaces to disseminate dynamic information, IEEE TKDE 18(10), 2006, section
    V-A: the trigger of this name.
"""

from dataclasses import dataclass

from experiments.push_pull.drift import Cover, Events
from experiments.push_pull.published.ratios import bad_share


@dataclass(frozen=True, slots=True)
class DynProp:
    """Fires when at least β of the regions have a shared ratio of at most α times what it was."""

    alpha: float = 0.5
    beta: float = 0.25

    def fires(self, labelled: Events, since: Events, cover: Cover) -> bool:
        """True when the labels are due to be made anew."""
        return len(since) > 0 and bad_share(labelled, since, cover, self.alpha, shared=True) >= self.beta
