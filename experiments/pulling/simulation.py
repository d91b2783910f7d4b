"""Trace-driven simulation of any scheduler, with the published scheduler and the clairvoyants compiled.

`drive` runs any scheduler through its seam, with the truth known at every tick; the compiled runs give the same results
for those they are named after.
"""

from collections.abc import Sequence

import numpy as np

from experiments.pulling import clairvoyant_kernels, ttr_schedule
from slackwater.core.errors import PlanningError
from slackwater.planning.pulling.base import LONGEST, PullQuery, Scheduler
from slackwater.planning.pulling.published.largest import PULL_RATIO
from slackwater.planning.pulling.published.markov import ChainSettings
from slackwater.planning.pulling.published.safety_factor import FIRST_GAMMA, LEARNING_RATE, WINDOW
from slackwater.planning.pulling.simulation import Flat, Floats, Outcome, empty_outputs

_CODES = {
    "data_incoherency": ttr_schedule.DATA_INCOHERENCY,
    "positive_negative": ttr_schedule.POSITIVE_NEGATIVE,
    "max": ttr_schedule.LARGEST,
    "max_for_many": ttr_schedule.LARGEST_FOR_MANY,
}


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
    """As `drive` with `PredictedChange`, compiled."""
    flat = Flat.of(queries)
    chain = settings or ChainSettings()
    if chain.draw and random is None:
        raise PlanningError("a chain that is drawn needs a seeded generator: give `random`")
    uniforms = random.random(trace.shape) if chain.draw and random is not None else np.zeros((0, 0))
    pulls, broken, error, over_time, estimated = empty_outputs(trace, queries)
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
    clairvoyant_kernels.push_changed(trace, flat.starts, flat.items, flat.weights, flat.within, warm, pushes)
    return int(pushes.sum())


def push_best(queries: Sequence[PullQuery], trace: Floats, warm: int = 0) -> int:
    """Messages of the clairvoyant that pushes one best item at a time."""
    flat, pushes = Flat.of(queries), np.zeros(trace.shape[1], np.int64)
    clairvoyant_kernels.push_best(trace, flat.starts, flat.items, flat.weights, flat.within, warm, pushes)
    return int(pushes.sum())
