"""Online dynamics estimate: item movement of a column, corrected by counted messages.

The estimate begins with the learnt statistics of the column. Items without any are taken to move alike and
independently. When a part sends r times the messages that the model predicts, its items are taken to move r^(1/p) times
as much, so that the prediction meets the count. Every later plan over these items uses the correction.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from slackwater.planning.aggregation.base import CostModel, Dynamics
from slackwater.planning.aggregation.scale_free_cost import ScaleFreeCost

Column: TypeAlias = tuple[str, str]
"""A table and a column of it."""
LEAST, MOST = 1e-3, 1e3
"""One count corrects an estimate by no more than this factor."""


class MovementModel:
    """Estimates by table and column; `model` turns movement into messages."""

    def __init__(self, learnt: Mapping[Column, Dynamics] | None = None, model: CostModel | None = None) -> None:
        self.model: CostModel = model or ScaleFreeCost()
        self._learnt = dict(learnt or {})
        self._factors: dict[tuple[Column, str], float] = {}

    def dynamics(self, column: Column, items: Sequence[str]) -> Dynamics:
        """Return the estimated dynamics of some items.

        >>> beliefs = MovementModel()
        >>> beliefs.correct(("quotes", "price"), ["IBM"], counted=8.0, predicted=2.0)
        >>> beliefs.dynamics(("quotes", "price"), ["IBM", "SAP"]).sumdiff.tolist()
        [2.0, 1.0]
        """
        known = self._learnt.get(column)
        places = {} if known is None else known.places
        # An item of which nothing was learnt moves as the others do on the average.
        usual = 1.0 if known is None or not known.sumdiff.any() else float(known.sumdiff.mean())
        sumdiff = np.full(len(items), usual)
        similarity = np.eye(len(items))
        if known is not None:
            here = [place for place, item in enumerate(items) if item in places]
            there = [places[items[place]] for place in here]
            sumdiff[here] = known.sumdiff[there]
            similarity[np.ix_(here, here)] = known.similarity[np.ix_(there, there)]
        factors = np.array([self._factors.get((column, item), 1.0) for item in items])
        return Dynamics(tuple(items), sumdiff * factors, similarity)

    def correct(self, column: Column, items: Iterable[str], counted: float, predicted: float) -> None:
        """Correct the items of a part by its counted messages against the predicted ones.

        An exact part teaches nothing: the model predicts messages without end for it.
        """
        if not math.isfinite(predicted):
            return
        ratio = min(max(counted / predicted if predicted > 0 else MOST, LEAST), MOST)
        for item in items:
            known = self._factors.get((column, item), 1.0)
            self._factors[column, item] = known * ratio ** (1.0 / self.model.exponent)
