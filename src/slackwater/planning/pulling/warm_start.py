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
from slackwater.planning.pulling.item_prior import Habit
from slackwater.planning.pulling.published.markov import MarkovModel
from slackwater.planning.pulling.published.predicted_change import PredictedChange
from slackwater.planning.pulling.scheduler_state import Bookkeeping
from slackwater.planning.pulling.tuning import LEARNING_CYCLE, LEARNING_PULLS, STAYING, TRUSTED
from slackwater.planning.pulling.uncertainty import Uncertainty

STUBBORN = 12.0
LEVEL_WEIGHT = 5.0
"""Pulls that the mean of the statistics counts for."""
LINE_WEIGHT = 4e5
"""Σ weight · ticks² that the drift of the statistics counts for."""
MOST_TICKS = 400.0
SIMPLER = 1.0
"""By how much a model with a slope has to be better where the statistics show none."""


def begin(scheduler: Bookkeeping, habits: Sequence[Habit | None]) -> None:
    """Let a scheduler begin with the habits of its items; without any, an item begins from nothing."""
    if len(habits) != scheduler.items:
        raise PlanningError(f"expected habits, or None, for each of {scheduler.items} items, but came {len(habits)}")
    match scheduler:
        case Uncertainty():
            for item, habit in enumerate(habits):
                if habit is not None:
                    begin_item(scheduler.models[item], habit)
                    if habit.loading is not None:
                        scheduler.kinship.loading[item] = habit.loading
        case PredictedChange():
            for chain, habit in zip(scheduler.models, habits, strict=True):
                if habit is not None:
                    begin_chain(chain, habit)
        case _:
            raise PlanningError(f"{type(scheduler).__name__} learns nothing, and so has no use for statistics")


def begin_item(model: ItemModel, habit: Habit) -> None:
    """Fill the bank of models."""
    kinds = [(float(staying), sloped) for sloped in (False, True) for staying in STAYING]
    score = [habit.likelihood(*kind) for kind in kinds]
    if not habit.drift:
        score[HALF:MODELS] = [each - SIMPLER for each in score[HALF:MODELS]]
    best = max(score)
    weight = 1e-6 if habit.drift else LEVEL_WEIGHT
    close = habit.interval <= 2.0 ** (LEARNING_CYCLE - 1)
    model.recall(
        {
            "learnt": LEARNING_PULLS if close else TRUSTED + 1,
            "scale": [habit.variance(*kind) for kind in kinds],
            "score": [max(each - best, -STUBBORN) for each in score],
            "sums": [weight, 0.0, LINE_WEIGHT, weight * habit.level, LINE_WEIGHT * habit.drift],
        }
    )


def spacing_of(habit: Habit) -> float:
    """δ for a chain of this item: half the deviation of its change a tick; 1 where it does not move."""
    return math.sqrt(habit.square) / max(habit.interval, 1.0) / 2.0 or 1.0


def begin_chain(model: MarkovModel, habit: Habit) -> None:
    """Fill the transition counts of the paper's chain."""
    steps = max(habit.interval, 1.0)
    width = habit.chain.spacing / steps
    total = float(habit.chain.weights.sum()) * steps
    share = min(1.0, MOST_TICKS / total) if total > 0.0 else 0.0
    for (before, after), weight in habit.chain.counts().items():
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
