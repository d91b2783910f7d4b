"""Cost calibration: models fitted to counted messages, the factor of any model and the exponent of the scale-free one.

Errors are relative ones, so everything is done in logarithms. Of sums that sent nothing nothing is learnt.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.core.errors import PlanningError
from slackwater.planning.aggregation.base import CostModel, Floats
from slackwater.planning.aggregation.scale_free_cost import ScaleFreeCost


@dataclass(frozen=True, eq=False)
class MeasuredSums:
    """Sums that were kept within bounds: raw and norm, the bound, and the messages an hour they took."""

    raw: Floats
    norm: Floats
    within: Floats
    messages: Floats

    def where(self, chosen: npt.NDArray[np.bool_]) -> "MeasuredSums":
        """Some of them."""
        return MeasuredSums(self.raw[chosen], self.norm[chosen], self.within[chosen], self.messages[chosen])


def fit_factor(model: CostModel, counted: MeasuredSums) -> float:
    """The factor with which the median of predicted/counted is 1."""
    known = (counted.messages > 0) & (counted.raw > 0)
    unit = model.amounts(counted.raw, counted.norm) / counted.within**model.exponent
    known &= unit > 0
    if not known.any():
        raise PlanningError("nothing was sent, so that nothing can be learnt: count for longer or with tighter bounds")
    return float(np.median(counted.messages[known] / unit[known]))


def fit_scale_free(counted: MeasuredSums) -> ScaleFreeCost:
    """κ and p by a straight line through log messages over log raw/C; κ again by the median, against outliers."""
    known = (counted.messages > 0) & (counted.raw > 0)
    across = np.log(counted.raw[known] / counted.within[known])
    if known.sum() < 3 or np.ptp(across) < 1e-9:
        raise PlanningError(
            "an exponent needs three sums at different bounds or of different movement, that sent something"
        )
    slope = float(np.polyfit(across, np.log(counted.messages[known]), 1)[0])
    shaped = ScaleFreeCost(exponent=max(slope, 0.05))
    return ScaleFreeCost(fit_factor(shaped, counted), shaped.exponent)


def predicted(model: CostModel, counted: MeasuredSums) -> Floats:
    """Messages an hour that a model predicts for the same sums."""
    expected: Floats = model.factor * model.amounts(counted.raw, counted.norm) / counted.within**model.exponent
    return expected


def rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's: how alike two orders are, with equal values sharing their ranks.

    >>> rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([10.0, 11.0, 12.0]))
    1.0
    """
    ranks = []
    for values in (one, other):
        _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - (counts - 1) / 2.0)[places])
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def relative_error(expected: Floats, counted: Floats) -> float:
    """The median of |expected − counted|/counted, over what was sent at all."""
    known = counted > 0
    return float(np.median(np.abs(expected[known] - counted[known]) / counted[known]))
