"""Uncertainty scheduler, the default: it pulls the items that lower the risk of violation most for their cost.

For each item mean and variance of its change since the last pull (`item_model`, `shared_clock`) and what it has in
common with others (`common_factor`), for each query the chance that it is outside its bound (`risk`, `heavy_tails`)
and a price λ of a tick outside (`prices`).

*Worth.* Pulling item i now would lower the cost of this tick by gᵢ = Σ_q λ_q·(chance − chance with i fresh). That is
no reason yet to pull: a pull now is one that will have to be repeated so much earlier. Where a cost rate c(τ) grows
with the time τ since the last pull and a pull costs C, pulling at T costs (C + Σ_{τ<T} c(τ))/T a tick, which is least
when c(T) equals it: when

    T·c(T) − Σ_{τ<T} c(τ) ≥ C.

The left side, with c = gᵢ, is the worth of the item (the index of a restless bandit); it counts all queries
that hold the item. The item with the largest worth per cost is picked, taken as fresh, and so on while something is
worth its cost. When the values have come, what they teach may make more items worth a pull in the same tick.

*Sleeping.* Between values nothing happens that cannot be computed in advance. `wake` computes ahead on a copy, at most
`AHEAD` ticks.
"""

import copy
import math
from collections.abc import Sequence
from typing import Any

from slackwater.core.query import AggregateFunction
from slackwater.kernels.pull_risk import NEGLIGIBLE
from slackwater.planning.pulling.base import LONGEST, PullQuery
from slackwater.planning.pulling.common_factor import CommonFactor, Known, likeness
from slackwater.planning.pulling.delivered_fidelity import UNKNOWN
from slackwater.planning.pulling.heavy_tails import HeavyTails
from slackwater.planning.pulling.item_model import ItemModel
from slackwater.planning.pulling.model_constants import SETTLING
from slackwater.planning.pulling.prices import Account, Prices
from slackwater.planning.pulling.risk import lowest_risk, risk
from slackwater.planning.pulling.scheduler_state import NEVER, SchedulerState
from slackwater.planning.pulling.shared_clock import SharedClock

AHEAD = 16
"""How many ticks `wake` looks ahead; beyond, waking up for nothing is cheaper than looking."""
_KEPT = ("kept", "judged", "lost", "counted", "debt", "expected", "own", "soon")


class Uncertainty(SchedulerState):
    """The scheduler by uncertainty; `price` fixes the price of a tick of violation, without feedback."""

    def __init__(
        self, items: int, *, costs: Sequence[float] | None = None, longest: int = LONGEST, price: float | None = None
    ) -> None:
        super().__init__(items, costs, longest)
        self.models = [ItemModel(item, longest) for item in range(items)]
        self.clock = SharedClock(longest)
        self.common_factor = CommonFactor(items)
        self.heavy_tails = HeavyTails()
        self.prices = Prices(price)
        self.accounts: dict[str, Account] = {}
        self.off = [[UNKNOWN] * (longest + 2) for _ in range(items)]
        self.off_variance = [[0.0] * (longest + 2) for _ in range(items)]
        self.ends = [[(1.0, 1.0)] * (longest + 2) for _ in range(items)]
        self.gain = [0.0] * items
        self.waited = [0.0] * items
        self._looked = NEVER
        self._chances: dict[str, float] = {}
        self._rates: dict[str, float] = {}

    def register(self, name: str, query: PullQuery) -> None:
        """Keep a query from now on."""
        super().register(name, query)
        self.accounts[name] = Account(query.bound.fidelity)
        self.accounts[name].begin(self.longest + 2)
        self._reprice()

    def unregister(self, name: str) -> None:
        """Keep a query no longer."""
        super().unregister(name)
        del self.accounts[name]
        self._chances.pop(name, None)
        self._reprice()

    def delivered(self, name: str) -> float | None:
        """The share of ticks within the bound, as far as ticks are judged; None while none is."""
        account = self.accounts[name]
        return account.kept / account.judged if account.judged else None

    def raise_price(self, name: str, by: float) -> None:
        """Begin with a price of violation that is e^by times the usual one; feedback goes on from there."""
        self.accounts[name].raised(by)
        self._reprice()

    def due(self, now: int) -> tuple[int, ...]:
        """Name the items that are overdue, being learnt, or worth their cost."""
        self._reach(now)
        return self._fly(self._look())

    def wake(self, now: int) -> int:
        """Compute ahead on a copy until something is due."""
        ahead = copy.deepcopy(self)
        for tick in range(now + 1, now + AHEAD):
            if ahead.due(tick):
                return tick
        return now + AHEAD

    def _look(self) -> list[int]:
        """One round: what is known now, and what to pull."""
        now = self.tick
        self._looked = now
        self.clock.reckon(now)
        known = Known(self.items)
        for item, model in enumerate(self.models):
            if item not in self.flying:
                mean, variance = model.change(now, self.clock)
                known.put(item, mean, variance, now - self.last[item], self.common_factor.loading[item])
        views = {name: _QueryView(query, self, known) for name, query in self.queries.items()}
        active = {name: view for name, view in views.items() if self._active(view.query)}
        chosen = [i for i in range(self.items) if self._wanted(i)]
        for item in chosen:
            self._refresh(item, active, known)
        while True:
            best, most = -1, 1.0
            for item in range(self.items):
                self.gain[item] = 0.0
                certain = known.mean[item] == 0.0 and known.variance[item] == 0.0
                if certain or self.last[item] == now or not self._free(item):
                    continue
                gain = 0.0
                for name in self._holders[item]:
                    view = active.get(name)
                    if view is None or view.chance < NEGLIGIBLE:
                        continue
                    gain += self._rates[name] * (view.chance - view.without(item, known))
                self.gain[item] = gain
                worth = (gain * (now - self.last[item]) - self.waited[item]) / self.costs[item]
                if worth > most:
                    best, most = item, worth
            if best < 0:
                break
            chosen.append(best)
            self._refresh(best, active, known)
        self._chances = {name: view.chance for name, view in active.items()}
        return chosen

    def _wanted(self, item: int) -> bool:
        if not self._free(item) or self.last[item] == self.tick:
            return False
        age = self._age(item)
        return age >= self.longest or self.models[item].curious(age)

    def _refresh(self, item: int, active: dict[str, "_QueryView"], known: Known) -> None:
        """Take an item as pulled."""
        for name in self._holders[item]:
            if name in active:
                active[name].refresh(item, known)
        known.refresh(item)

    def _pass_tick(self) -> None:
        now = self.tick
        if now > 0 and self._looked < now - 1:
            # `due` was not called in the last tick; the worth of its pulls is carried over to the next one.
            self.tick = now - 1
            self._look()
            self.tick = now
        for item in range(self.items):
            self.waited[item] += self.gain[item]
        if now > SETTLING:
            for name, account in self.accounts.items():
                account.foresee(now - 1, self._chances.get(name, account.allowed))
        judged = now - self.longest - 1
        if judged >= 0:
            self._judge(judged)
        self.clock.begin(now)

    def _judge(self, tick: int) -> None:
        slot = tick % (self.longest + 2)
        chances = []
        for name, query in self.queries.items():
            if not query.linear:
                # A past minimum does not follow from bridges that each know only their own item.
                if name in self._chances:
                    chances.append((self.accounts[name], self._chances[name]))
                continue
            mean, variance = self._was(query, slot)
            if mean == mean:
                chances.append((self.accounts[name], risk(mean, variance, query.bound.within, self.heavy_tails.wild)))
            else:
                self.accounts[name].forget(tick)
        self.prices.judge(tick, self.tick, chances)
        self._reprice()
        for row in self.off:
            row[slot] = UNKNOWN

    def _was(self, query: PullQuery, slot: int) -> tuple[float, float]:
        """Mean and variance of a query's error at a tick that is past."""
        mean, variance = 0.0, 0.0
        for item, weight in zip(query.items, query.weights, strict=True):
            mean += weight * self.off[item][slot]
            variance += weight * weight * self.off_variance[item][slot]
        if mean != mean:
            return mean, variance
        for place, item in enumerate(query.items):
            own = self.off_variance[item][slot]
            if own <= 0.0:
                continue
            for before in range(place):
                other = query.items[before]
                its = self.off_variance[other][slot]
                if its <= 0.0:
                    continue
                alike = likeness(*self.ends[item][slot], *self.ends[other][slot])
                related = self.common_factor.loading[item] * self.common_factor.loading[other]
                pair = 2.0 * query.weights[place] * query.weights[before]
                variance += pair * related * alike * math.sqrt(own * its)
        return mean, max(variance, 0.0)

    def _reprice(self) -> None:
        held = [count for count in self._held if count]
        cost = sum(self.costs) / self.items
        share = sum(held) / len(held) if held else 1.0
        self._rates = {name: self.prices.price(each, cost, share) for name, each in self.accounts.items()}

    def _learn(self, now: int, item: int, last: int, change: float) -> None:
        model = self.models[item]
        for tick, off, variance in model.learn(now, self.values[item], self.clock):
            slot = tick % (self.longest + 2)
            self.off[item][slot] = off
            self.off_variance[item][slot] = variance
            self.ends[item][slot] = (float(tick - last), float(now - tick))
        if last != NEVER and now > last and model.surprise is not None:
            self.heavy_tails.learn(model.surprise)
            self.common_factor.learn(item, last, now, model.surprise)
        self.waited[item] = self.gain[item] = 0.0

    def _known(self) -> dict[str, Any]:
        return {
            "models": [model.known() for model in self.models],
            "clock": self.clock.known(),
            "kinship": self.common_factor.known(),
            "wild": self.heavy_tails.wild,
            "prices": [self.prices.common, self.prices.recent, self.prices.settled],
            "accounts": {
                name: {field: getattr(each, field) for field in _KEPT} for name, each in self.accounts.items()
            },
            "off": self.off,
            "off_variance": self.off_variance,
            "ends": self.ends,
            "gain": self.gain,
            "waited": self.waited,
            "looked": self._looked,
            "chances": self._chances,
        }

    def _recall(self, known: dict[str, Any]) -> None:
        for model, each in zip(self.models, known["models"], strict=True):
            model.recall(each)
        self.clock.recall(known["clock"])
        self.prices.common, self.prices.recent, self.prices.settled = known["prices"]
        self.common_factor.recall(known["kinship"])
        self.heavy_tails.wild = known["wild"]
        for name, kept in known["accounts"].items():
            self.accounts[name] = Account(self.accounts[name].fidelity, **{field: kept[field] for field in _KEPT})
        self.off, self.off_variance = known["off"], known["off_variance"]
        self.ends = [[(before, after) for before, after in row] for row in known["ends"]]
        self.gain, self.waited = known["gain"], known["waited"]
        self._looked, self._chances = known["looked"], known["chances"]
        self._reprice()


class _QueryView:
    """A query in one round: the chance that it is outside, and what it would be with an item fresh."""

    def __init__(self, query: PullQuery, scheduler: Uncertainty, known: Known) -> None:
        self.query = query
        self.weight = dict(zip(query.items, query.weights, strict=True))
        self.within = query.bound.within
        self.wild = scheduler.heavy_tails.wild
        self.mean = self.variance = 0.0
        if query.linear:
            self.mean, self.variance = known.total(query.items, query.weights)
            self.chance = risk(self.mean, self.variance, self.within, self.wild)
        else:
            # MAX is the minimum of the negatives.
            sign = 1.0 if query.function is AggregateFunction.MIN else -1.0
            self.factors = [sign * weight for weight in query.weights]
            self.held = [
                factor * scheduler.values[item] for factor, item in zip(self.factors, query.items, strict=True)
            ]
            self.chance = self._extreme(known, -1)

    def without(self, item: int, known: Known) -> float:
        """The chance with an item fresh."""
        if not self.query.linear:
            return self._extreme(known, self.query.items.index(item))
        weight = self.weight[item]
        part = known.part(item, self.query.items, self.query.weights, weight)
        rest = max(self.variance - part, 1e-12 * self.variance)
        return risk(self.mean - weight * known.mean[item], rest, self.within, self.wild)

    def refresh(self, item: int, known: Known) -> None:
        """Take an item as fresh; `known` is from before."""
        if not self.query.linear:
            self.chance = self._extreme(known, self.query.items.index(item))
            return
        weight = self.weight[item]
        part = known.part(item, self.query.items, self.query.weights, weight)
        self.mean -= weight * known.mean[item]
        self.variance = max(self.variance - part, 0.0)
        self.chance = risk(self.mean, self.variance, self.within, self.wild)

    def _extreme(self, known: Known, without: int) -> float:
        items = self.query.items
        centres = [held + f * known.mean[i] for held, f, i in zip(self.held, self.factors, items, strict=True)]
        spreads = [f * f * known.variance[i] for f, i in zip(self.factors, items, strict=True)]
        return lowest_risk(self.held, centres, spreads, self.within, without)
