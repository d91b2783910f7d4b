"""Trace-driven simulation of schedulers: pulls, delivered fidelity and error against the truth at every tick.

At each tick the truth moves, the scheduler is asked until it wants nothing more, and what is asked for is answered at
once with the truth; then the error that is left is compared with the bound. That is the aggregator's error, as in
the paper. What a client sees is further off by what sending holds back: to bind the client, split its bound
(`split_between`) and simulate with the first part.

`run_uncertainty` is compiled and gives what driving `Uncertainty` through its seam gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.core.errors import PlanningError
from slackwater.kernels import pull_uncertainty
from slackwater.planning.pulling.base import LONGEST, PullQuery
from slackwater.planning.pulling.model_constants import CONSTANTS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a run, counted from the tick `warm` on."""

    pulls: Integers
    """By item."""
    broken: Integers
    """Ticks outside the bound, by query."""
    error: Floats
    """The mean of |error| / B, by query."""
    over_time: Integers
    """How many queries were outside, for every tick from 0 on."""
    ticks: int
    """The ticks counted."""

    @property
    def fidelity(self) -> Floats:
        """The share of ticks within the bound, by query."""
        return 1.0 - self.broken / self.ticks


@dataclass(frozen=True, eq=False)
class Flat:
    """Weighted sums as arrays, one after the other."""

    starts: Integers
    items: Integers
    weights: Floats
    within: Floats
    fidelity: Floats

    @classmethod
    def of(cls, queries: Sequence[PullQuery]) -> "Flat":
        """Lay queries out; only weighted sums can be."""
        if not all(query.linear for query in queries):
            raise PlanningError("the compiled simulation knows weighted sums only: drive the scheduler instead")
        return cls(
            np.cumsum([0, *(len(query.items) for query in queries)]).astype(np.int64),
            np.array([item for query in queries for item in query.items], np.int64),
            np.array([weight for query in queries for weight in query.weights], np.float64),
            np.array([query.bound.within for query in queries], np.float64),
            np.array([query.bound.fidelity for query in queries], np.float64),
        )


def run_uncertainty(
    queries: Sequence[PullQuery],
    trace: Floats,
    warm: int = 0,
    *,
    costs: Sequence[float] | None = None,
    longest: int = LONGEST,
    price: float | None = None,
) -> Outcome:
    """As `drive` with `Uncertainty`, compiled."""
    flat = Flat.of(queries)
    pulls, broken, error, over_time, estimated = empty_outputs(trace, queries)
    given = np.ones(trace.shape[1]) if costs is None else np.array(costs, np.float64)
    pull_uncertainty.simulate(
        *(trace, flat.starts, flat.items, flat.weights, flat.within, flat.fidelity, given, longest, warm),
        *(0.0 if price is None else price, CONSTANTS, pulls, broken, error, over_time, estimated),
    )
    return Outcome(pulls, broken, error / (len(trace) - warm), over_time, len(trace) - warm)


def empty_outputs(trace: Floats, queries: Sequence[PullQuery]) -> tuple[Integers, Integers, Floats, Integers, Floats]:
    """Arrays for a run: pulls by item; broken ticks, error and estimate by query; queries outside by tick."""
    count = len(queries)
    return (
        np.zeros(trace.shape[1], np.int64),
        np.zeros(count, np.int64),
        np.zeros(count),
        np.zeros(len(trace), np.int64),
        np.zeros(count),
    )
