"""Predicted-change scheduler, as published: it pulls when the predicted error of a query leaves its limit.

Each tick every item's chain is stepped. When |Σ wᵢ·PCᵢ| > sf·B for some query, a *choice* picks the items to pull;
beside them, items that were last pulled TTRmax ticks ago. The factor sf follows the delivered fidelity
(`safety_factor`).

The chain has to be stepped at every tick, so it wants to be asked at every tick.

References
    R. Gupta, A. Puri, K. Ramamritham, Executing incoherency bounded continuous queries at web data aggregators,
    WWW 2005, section 2.2.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from slackwater.core.errors import PlanningError
from slackwater.planning.pulling.base import LONGEST, PullQuery
from slackwater.planning.pulling.delivered_fidelity import InterpolatedErrors
from slackwater.planning.pulling.published.item_choice import Choice, Limited
from slackwater.planning.pulling.published.largest_for_many import largest_for_many
from slackwater.planning.pulling.published.markov import ChainSettings, MarkovModel
from slackwater.planning.pulling.published.safety_factor import WINDOW, SafetyFactor
from slackwater.planning.pulling.scheduler_state import NEVER, SchedulerState


class PredictedChange(SchedulerState):
    """Markov chains, a choice, and feedback.

    `spacings` are the δ of the items' chains; `fixed` keeps sf at one value, without feedback; `random` is needed
    where the chain is drawn.
    """

    def __init__(
        self,
        spacings: Sequence[float],
        choice: Choice = largest_for_many,
        *,
        costs: Sequence[float] | None = None,
        longest: int = LONGEST,
        settings: ChainSettings | None = None,
        fixed: float | None = None,
        random: np.random.Generator | None = None,
    ) -> None:
        super().__init__(len(spacings), costs, longest)
        self.choice = choice
        self.models = [MarkovModel(spacing, settings) for spacing in spacings]
        self.fixed = fixed
        if self.models[0].settings.draw and random is None:
            raise PlanningError("a chain that is drawn needs a seeded generator: give `random`")
        self.random = random
        self.off = InterpolatedErrors(self.items, longest)
        self.safety: dict[str, SafetyFactor] = {}
        self.kept: dict[str, float] = {}
        self.counted: dict[str, float] = {}
        self._chosen_at = NEVER

    def register(self, name: str, query: PullQuery) -> None:
        """Keep a weighted sum; the chain does not predict how far a minimum moves."""
        if not query.linear:
            raise PlanningError(
                f"{query.function.value} of {name!r} is not a weighted sum: use the scheduler by uncertainty"
            )
        super().register(name, query)
        self.safety[name] = SafetyFactor(query.bound.fidelity, 1.0 if self.fixed is None else self.fixed)
        self.kept[name] = self.counted[name] = 0.0

    def unregister(self, name: str) -> None:
        """Keep a query no longer."""
        super().unregister(name)
        for table in (self.safety, self.kept, self.counted):
            del table[name]

    def delivered(self, name: str) -> float | None:
        """The share of ticks within the bound, by interpolation; None while no tick can be judged."""
        return self.kept[name] / self.counted[name] if self.counted[name] else None

    def due(self, now: int) -> tuple[int, ...]:
        """Name the items to pull: one pass a tick."""
        self._reach(now)
        chosen = self._overdue()
        if self._chosen_at < now:
            self._chosen_at = now
            changes = [model.change for model in self.models]
            for item in [*chosen, *self.flying]:
                changes[item] = 0.0
            limited = [
                Limited(query.items, query.weights, self.safety[name].factor * query.bound.within)
                for name, query in self.queries.items()
                if self._active(query)
            ]
            chosen += [item for item in self.choice(limited, changes) if item not in chosen]
        return self._fly(chosen)

    def wake(self, now: int) -> int:
        """Every tick is a step of the chains."""
        return now + 1

    def _pass_tick(self) -> None:
        for model in self.models:
            model.tick(float(self.random.random()) if self.random is not None else 0.0)
        judged = self.tick - self.off.delay
        if judged >= 0:
            for name, query in self.queries.items():
                error = self.off.error(query.items, query.weights, judged)
                if error == error:
                    self.counted[name] += 1.0
                    self.kept[name] += abs(error) <= query.bound.within
            self.off.forget(judged)
        if self.tick > 0 and self.tick % WINDOW == 0 and self.fixed is None:
            for name, safety in self.safety.items():
                safety.observe(self.kept[name], self.counted[name])

    def _learn(self, now: int, item: int, last: int, change: float) -> None:
        self.off.pulled(item, last, now, change)
        if last == NEVER:
            self.models[item].pulled(0, 0.0)
        else:
            self.models[item].pulled(now - last, change)

    def _known(self) -> dict[str, Any]:
        return {
            "models": [model.known() for model in self.models],
            "off": self.off.known(),
            "safety": {name: [each.factor, each.gamma, each.last] for name, each in self.safety.items()},
            "kept": self.kept,
            "counted": self.counted,
            "chosen_at": self._chosen_at,
            "random": None if self.random is None else json.loads(json.dumps(self.random.bit_generator.state)),
        }

    def _recall(self, known: dict[str, Any]) -> None:
        for model, each in zip(self.models, known["models"], strict=True):
            model.recall(each)
        self.off.recall(known["off"])
        for name, (factor, gamma, last) in known["safety"].items():
            safety = self.safety[name]
            safety.factor, safety.gamma, safety.last = factor, gamma, last
        self.kept, self.counted = known["kept"], known["counted"]
        self._chosen_at = known["chosen_at"]
        if self.random is not None:
            self.random.bit_generator.state = known["random"]
