"""Feedback control of α, the weight of floors, towards a target share of queries with a plan.

A plan that was not found raises α, one that was found lowers it, by steps such that α stays where it is when the
share is the target: log α grows by step·(target − found). A larger α costs messages, so more than the target is not
wanted.
"""

import math
from dataclasses import dataclass, replace

from slackwater.core.errors import PlanningError


@dataclass(frozen=True, slots=True)
class FollowingAlpha:
    """The current α; `after` gives the next.

    >>> following = FollowingAlpha(target=0.95)
    >>> following.after(found=False).alpha > following.alpha > following.after(found=True).alpha
    True
    """

    target: float
    alpha: float = 1.0
    step: float = 0.3
    most: float = 1e4

    def __post_init__(self) -> None:
        if not (0 < self.target < 1 and 0 < self.alpha <= self.most and self.step > 0):
            raise PlanningError("a target share lies between 0 and 1, α and its step above 0")

    def after(self, *, found: bool) -> "FollowingAlpha":
        """Return the α after one more query."""
        alpha = self.alpha * math.exp(self.step * (self.target - found))
        return replace(self, alpha=min(max(alpha, 1.0 / self.most), self.most))
