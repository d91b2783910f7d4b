"""Pull forecast of one trial run, as a part of an explanation: pulls an hour of a query. No I/O, no clock.

A trial draws values at unobserved ticks; the generator has a fixed seed, so that the same question gets the same
answer.
"""

import numpy as np

from slackwater.aggregator.pull.pull_state import PULLING, Trial
from slackwater.planning.pulling.base import PullQuery
from slackwater.planning.pulling.history_sampling import Past, past_of, unknown
from slackwater.planning.pulling.trial import first_price, pulls_a_tick, run_trial
from slackwater.sql import Detail, ExplainTree, Grid

NAME = "pulls foretold"
_SEED = 20
_UNIT = "pulls/hour"


def refused(why: str) -> ExplainTree:
    """The part that gives the reason for missing figures."""
    return ExplainTree(NAME, (Detail("not yet", why),))


def explain_forecast(trial: Trial) -> ExplainTree:
    """The figures for the one query of a trial, alone, at its own and neighbouring bounds and fidelities."""
    [query] = trial.queries.values()
    why = _wanting(trial, query)
    if why is not None:
        return refused(why)
    past = _past(trial)
    found = run_trial(query, past, costs=trial.costs, longest=trial.longest)
    # What the client asked for is the bound of pulling over the part that pulling may use up.
    asked = tuple(float(f"{bound / PULLING:.12g}") for bound in found.bounds)
    chosen = (found.bounds.index(query.bound.within), found.fidelities.index(query.bound.fidelity))
    figures = tuple(tuple(an_hour(pulls, trial) for pulls in row) for row in found.pulls)
    details = (
        Detail("by", _by(trial, past)),
        Detail("at this bound and fidelity", figures[chosen[0]][chosen[1]], _UNIT),
        Detail(f"each item once in {trial.longest} ticks", an_hour(found.least, trial), _UNIT),
        Detail("each item at every tick", an_hour(found.most, trial), _UNIT),
    )
    return ExplainTree(NAME, details, (), Grid(_UNIT, asked, found.fidelities, figures, chosen))


def predicted(trial: Trial) -> dict[int, float]:
    """How often an hour the items of each query would be pulled, all of them standing together."""
    if unknown(trial.memories) is not None:
        return {}
    found = pulls_a_tick(list(trial.queries.values()), _past(trial), costs=trial.costs, longest=trial.longest)
    return {number: an_hour(pulls, trial) for number, pulls in zip(trial.queries, found, strict=True)}


def priced(trial: Trial) -> float | None:
    """The logarithm of the factor that the one query's first price is to be raised by; None where it is unknown."""
    [query] = trial.queries.values()
    if _wanting(trial, query) is not None:
        return None
    return first_price(query, _past(trial), costs=trial.costs, longest=trial.longest)


def an_hour(a_tick: float, trial: Trial) -> float:
    """A rate by the tick as one by the hour."""
    return round(a_tick * 3600e6 / trial.tick, 1)


def _wanting(trial: Trial, query: PullQuery) -> str | None:
    if not query.linear:
        return f"only weighted sums can be tried on the past, and {query.function.value} is none"
    if query.bound.within == 0:
        return "a bound of 0 needs every item at every tick"
    return unknown(trial.memories)


def _past(trial: Trial) -> Past:
    return past_of(trial.memories, np.random.default_rng(_SEED))


def _by(trial: Trial, past: Past) -> str:
    seconds = past.known * trial.tick / 1e6
    pulls = f"what was pulled in {seconds:.6g} seconds"
    if past.pulled == len(trial.memories):
        return pulls
    if past.pulled == 0:
        return f"statistics, {seconds:.6g} seconds drawn by them"
    return f"{pulls} for {past.pulled} items, statistics for {len(trial.memories) - past.pulled}"
