"""Schedulers run over traces: pulls, fidelity delivered, error at the aggregator, with the truth known at every tick.

At each tick the truth moves, the scheduler is asked until it wants nothing more, and what is asked for is answered at
once with the truth; then the error that is left is compared with the bound. That is the aggregator's error, as in
the paper. What a client sees is further off by what sending holds back: to bind the client, split its bound
(`split_between`) and simulate with the first part.

`drive` runs any scheduler through its seam; `run_uncertainty`, `run_predicted` and the clairvoyants are compiled and
give the same results for those they are named after.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.core.errors import PlanningError
from slackwater.kernels import pull_clairvoyants, pull_uncertainty, ttr_schedule
from slackwater.planning.pulling.base import LONGEST, PullQuery, Scheduler
from slackwater.planning.pulling.published.largest import PULL_RATIO
from slackwater.planning.pulling.published.markov import ChainSettings
from slackwater.planning.pulling.published.safety_factor import FIRST_GAMMA, LEARNING_RATE, WINDOW

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_CODES = {
    "data_incoherency": ttr_schedule.DATA_INCOHERENCY,
    "positive_negative": ttr_schedule.POSITIVE_NEGATIVE,
    "max": ttr_schedule.LARGEST,
    "max_for_many": ttr_schedule.LARGEST_FOR_MANY,
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run came to, from the tick `warm` on."""

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


def drive(scheduler: Scheduler, queries: Sequence[PullQuery], trace: Floats, warm: int = 0) -> Outcome:
    """Run a scheduler that has these queries over a trace, through its seam."""
    ticks, items = trace.shape
    pulls = np.zeros(items, np.int64)
    broken, error = np.zeros(len(queries), np.int64), np.zeros(len(queries))
    over_time = np.zeros(ticks, np.int64)
    held = [0.0] * items
    for now in range(ticks):
        truth: list[float] = trace[now].tolist()
        while chosen := scheduler.due(now):
            for item in chosen:
                scheduler.pulled(now, item, truth[item])
                held[item] = truth[item]
                pulls[item] += now >= warm
        for place, query in enumerate(queries):
            if query.linear:
                off = 0.0
                for item, weight in zip(query.items, query.weights, strict=True):
                    off += weight * (truth[item] - held[item])
            else:
                off = query.value(truth) - query.value(held)
            over_time[now] += abs(off) > query.bound.within
            if now >= warm:
                broken[place] += abs(off) > query.bound.within
                if query.bound.within > 0.0:
                    error[place] += abs(off) / query.bound.within
    return Outcome(pulls, broken, error / (ticks - warm), over_time, ticks - warm)


def run_uncertainty(
    queries: Sequence[PullQuery],
    trace: Floats,
    warm: int = 0,
    *,
    costs: Sequence[float] | None = None,
    longest: int = LONGEST,
    price: float | None = None,
) -> Outcome:
    """What `drive` gives for `Uncertainty`, compiled."""
    flat = Flat.of(queries)
    pulls, broken, error, over_time, estimated = _outputs(trace, queries)
    given = np.ones(trace.shape[1]) if costs is None else np.array(costs, np.float64)
    pull_uncertainty.simulate(
        *(trace, flat.starts, flat.items, flat.weights, flat.within, flat.fidelity, given, longest, warm),
        *(0.0 if price is None else price, pulls, broken, error, over_time, estimated),
    )
    return Outcome(pulls, broken, error / (len(trace) - warm), over_time, len(trace) - warm)


def run_predicted(
    queries: Sequence[PullQuery],
    trace: Floats,
    spacings: Sequence[float],
    choice: str = "max_for_many",
    warm: int = 0,
    *,
    longest: int = LONGEST,
    settings: ChainSettings | None = None,
    fixed: float | None = None,
    random: np.random.Generator | None = None,
) -> Outcome:
    """What `drive` gives for `PredictedChange`, compiled."""
    flat = Flat.of(queries)
    chain = settings or ChainSettings()
    if chain.draw and random is None:
        raise PlanningError("a chain that is drawn needs a seeded generator: give `random`")
    uniforms = random.random(trace.shape) if chain.draw and random is not None else np.zeros((0, 0))
    pulls, broken, error, over_time, estimated = _outputs(trace, queries)
    ttr_schedule.simulate(
        trace,
        flat.starts,
        flat.items,
        flat.weights,
        flat.within,
        flat.fidelity,
        np.array(spacings, np.float64),
        _CODES[choice],
        PULL_RATIO,
        chain.reach,
        chain.prior,
        chain.smoothing,
        chain.literal,
        uniforms,
        WINDOW,
        FIRST_GAMMA,
        LEARNING_RATE,
        0.0 if fixed is None else fixed,
        longest,
        warm,
        pulls,
        broken,
        error,
        over_time,
        estimated,
    )
    return Outcome(pulls, broken, error / (len(trace) - warm), over_time, len(trace) - warm)


def push_changed(queries: Sequence[PullQuery], trace: Floats, warm: int = 0) -> int:
    """Messages of the paper's ideal push."""
    flat, pushes = Flat.of(queries), np.zeros(trace.shape[1], np.int64)
    pull_clairvoyants.push_changed(trace, flat.starts, flat.items, flat.weights, flat.within, warm, pushes)
    return int(pushes.sum())


def push_best(queries: Sequence[PullQuery], trace: Floats, warm: int = 0) -> int:
    """Messages of the clairvoyant that pushes one best item at a time."""
    flat, pushes = Flat.of(queries), np.zeros(trace.shape[1], np.int64)
    pull_clairvoyants.push_best(trace, flat.starts, flat.items, flat.weights, flat.within, warm, pushes)
    return int(pushes.sum())


def _outputs(trace: Floats, queries: Sequence[PullQuery]) -> tuple[Integers, Integers, Floats, Integers, Floats]:
    count = len(queries)
    return (
        np.zeros(trace.shape[1], np.int64),
        np.zeros(count, np.int64),
        np.zeros(count),
        np.zeros(len(trace), np.int64),
        np.zeros(count),
    )
