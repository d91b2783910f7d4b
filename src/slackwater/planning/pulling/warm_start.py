"""Warm start: schedulers initialised from item statistics.

*By uncertainty.* Each model of an item's bank gets its variance a tick and its score from the pairs of the statistics
(`item_prior`), its line from mean and drift; what an item has in common with others comes from the similarities. Scores
may differ by `STUBBORN` at most: pulls that contradict them win after a while. An item that was updated about
as often as it is pulled need not be learnt by pulling it after 1, 2, 4, 8 and 16 ticks; one of which only long steps
are known still is, but is priced from its first tick on.

*By the paper.* The chain gets the transitions that were counted, dealt out to its own states: a change of c from an
update to the next is c/r a tick, r ticks long. All together they count as `MOST_TICKS` ticks at most, so that pulls
still matter.
"""

import math
from collections.abc import Sequence

from slackwater.core.errors import PlanningError
from slackwater.planning.pulling.item_model import HALF, MODELS, ItemModel
from slackwater.planning.pulling.item_prior import ItemPrior
from slackwater.planning.pulling.model_constants import LEARNING_CYCLE, LEARNING_PULLS, STAYING, TRUSTED
from slackwater.planning.pulling.published.markov import MarkovModel
from slackwater.planning.pulling.published.predicted_change import PredictedChange
from slackwater.planning.pulling.scheduler_state import SchedulerState
from slackwater.planning.pulling.uncertainty import Uncertainty

STUBBORN = 12.0
LEVEL_WEIGHT = 5.0
"""Pulls that the mean of the statistics counts for."""
LINE_WEIGHT = 4e5
"""Σ weight · ticks² that the drift of the statistics counts for."""
MOST_TICKS = 400.0
SIMPLER = 1.0
"""By how much a model with a slope has to be better where the statistics show none."""


def begin(scheduler: SchedulerState, priors: Sequence[ItemPrior | None]) -> None:
    """Let a scheduler begin with the priors of its items; without any, an item begins from nothing."""
    if len(priors) != scheduler.items:
        raise PlanningError(f"expected priors, or None, for each of {scheduler.items} items, but came {len(priors)}")
    match scheduler:
        case Uncertainty():
            for item, prior in enumerate(priors):
                if prior is not None:
                    begin_item(scheduler.models[item], prior)
                    if prior.loading is not None:
                        scheduler.common_factor.loading[item] = prior.loading
        case PredictedChange():
            for chain, prior in zip(scheduler.models, priors, strict=True):
                if prior is not None:
                    begin_chain(chain, prior)
        case _:
            raise PlanningError(f"{type(scheduler).__name__} learns nothing, and so has no use for statistics")


def begin_item(model: ItemModel, prior: ItemPrior) -> None:
    """Fill the bank of models."""
    kinds = [(float(staying), sloped) for sloped in (False, True) for staying in STAYING]
    score = [prior.likelihood(*kind) for kind in kinds]
    if not prior.drift:
        score[HALF:MODELS] = [each - SIMPLER for each in score[HALF:MODELS]]
    best = max(score)
    weight = 1e-6 if prior.drift else LEVEL_WEIGHT
    close = prior.interval <= 2.0 ** (LEARNING_CYCLE - 1)
    model.recall(
        {
            "learnt": LEARNING_PULLS if close else TRUSTED + 1,
            "scale": [prior.variance(*kind) for kind in kinds],
            "score": [max(each - best, -STUBBORN) for each in score],
            "sums": [weight, 0.0, LINE_WEIGHT, weight * prior.level, LINE_WEIGHT * prior.drift],
        }
    )


def spacing_of(prior: ItemPrior) -> float:
    """δ for a chain of this item: half the deviation of its change a tick; 1 where it does not move."""
    return math.sqrt(prior.square) / max(prior.interval, 1.0) / 2.0 or 1.0


def begin_chain(model: MarkovModel, prior: ItemPrior) -> None:
    """Fill the transition counts of the paper's chain."""
    steps = max(prior.interval, 1.0)
    width = prior.chain.spacing / steps
    total = float(prior.chain.weights.sum()) * steps
    share = min(1.0, MOST_TICKS / total) if total > 0.0 else 0.0
    for (before, after), weight in prior.chain.counts().items():
        for there, arriving in _states(model, after, width):
            counted = share * weight * arriving
            model.counts[there][there] += counted * (steps - 1.0)
            for here, leaving in _states(model, before, width):
                model.counts[here][there] += counted * leaving


def _states(model: MarkovModel, number: int, width: float) -> list[tuple[int, float]]:
    """The model's states that a state of another width lies in, with the share of it in each."""
    reach = model.settings.reach
    low, high = (number - 0.5) * width / model.spacing, (number + 0.5) * width / model.spacing
    first, last = math.floor(low + 0.5), math.floor(high + 0.5)
    if first >= reach or last <= -reach:
        return [(2 * reach if first >= reach else 0, 1.0)]
    found: dict[int, float] = {}
    for state in range(max(first, -reach), min(last, reach) + 1):
        begin_at = low if state == -reach else max(low, state - 0.5)
        end_at = high if state == reach else min(high, state + 0.5)
        found[state + reach] = max(end_at - begin_at, 0.0) / (high - low)
    return [(state, part) for state, part in found.items() if part > 0.0]
