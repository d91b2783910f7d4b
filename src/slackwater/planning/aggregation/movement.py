"""What is believed of how the items of a column move, and how what was counted corrects it.

To begin with it is what was learnt of the column, or, of items of which nothing was, that all move alike and have
nothing to do with each other. When a part sends r times the messages that the model says, its items are taken to move
r^(1/p) times as much: then the model says what was counted. Everybody who plans over these items has the benefit.
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
"""One count corrects a belief by no more than this."""


class MovementModel:
    """By table and column; `model` says what movement costs."""

    def __init__(self, learnt: Mapping[Column, Dynamics] | None = None, model: CostModel | None = None) -> None:
        self.model: CostModel = model or ScaleFreeCost()
        self._learnt = dict(learnt or {})
        self._factors: dict[tuple[Column, str], float] = {}

    def dynamics(self, column: Column, items: Sequence[str]) -> Dynamics:
        """How some items move, as far as is known.

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
        """A part of these items has sent so many messages, where the model said so many; nothing is learnt of a part
        that is exact, of which the model says that they are without end."""
        if not math.isfinite(predicted):
            return
        ratio = min(max(counted / predicted if predicted > 0 else MOST, LEAST), MOST)
        for item in items:
            known = self._factors.get((column, item), 1.0)
            self._factors[column, item] = known * ratio ** (1.0 / self.model.exponent)
