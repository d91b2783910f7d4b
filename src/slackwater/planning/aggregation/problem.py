"""Planning problem: one query over one network, with the amounts and floors of its possible parts.

A part is a set of the query's items, written as a number whose bit i is item i. Amounts come one at a time for
queries of any size, and as tables over all subsets for queries of up to `MOST_ITEMS` items.

References
    R. Gupta, K. Ramamritham, Optimized query planning of continuous aggregation queries in dynamic data
    dissemination networks, WWW 2007, section 4.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from slackwater.core.errors import Infeasible, PlanningError
from slackwater.kernels.subsets import least_total, quadratic
from slackwater.kernels.waterfilling import share_out
from slackwater.planning.aggregation.base import (
    CostModel,
    Dynamics,
    Floats,
    NetworkPlan,
    Offer,
    Part,
    SumQuery,
    messages,
)
from slackwater.planning.aggregation.held_cost import half_steps, held_messages, most_sent

MOST_ITEMS = 14
"""Tables over all subsets take 3ⁿ steps: at 14 items a few seconds, at 10 a few milliseconds."""
TOGETHER = 1e-6
"""Items that are sent whenever they are heard of cost the same together as apart: together is preferred by so much."""


@dataclass(frozen=True, eq=False)
class SubsetTables:
    """Of every subset: a^(1/(p+1)), the least X that an aggregator can promise, which aggregator that is, what is spent
    of the bound there and the most it costs, but for the model's factor."""

    roots: Floats
    floors: Floats
    holders: npt.NDArray[np.int64]
    spent: Floats
    most: Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """A query, the offers it can be planned over, how the items move and what messages cost.

    Where `floors_take`, a part costs what it does at an aggregator that itself knows its items only within bounds
    (`held_cost`); otherwise what it would cost at one that knows the truth, as the paper has it.
    """

    query: SumQuery
    offers: tuple[Offer, ...]
    dynamics: Dynamics
    model: CostModel
    floors_take: bool = False

    @property
    def whole(self) -> int:
        """All items."""
        return (1 << len(self.query.items)) - 1

    @cached_property
    def floors(self) -> Floats:
        """|w|·c by offer and item; infinite where an offer lacks the item."""
        missing = np.inf
        return np.array(
            [
                [
                    abs(weight) * offer.within.get(item, missing)
                    for item, weight in zip(self.query.items, self.query.weights, strict=True)
                ]
                for offer in self.offers
            ]
        ).reshape(len(self.offers), len(self.query.items))

    @cached_property
    def held(self) -> tuple[int, ...]:
        """The maximal part of each offer."""
        # Python's whole numbers where a part has more bits than a machine word.
        kind = np.int64 if len(self.query.items) < 63 else object
        bits = np.array([1 << place for place in range(len(self.query.items))], kind)
        return tuple(int(part) for part in (self.floors < np.inf) @ bits)

    @cached_property
    def _moves(self) -> tuple[Floats, Floats, Floats]:
        """|w|·R of each item, and the terms of raw² and norm² of each ordered pair."""
        rows = self.dynamics.rows(self.query.items)
        weights = np.array(self.query.weights)
        alike = self.dynamics.similarity[np.ix_(rows, rows)] * self.model.pairs
        alike = (alike + alike.T) / 2
        np.fill_diagonal(alike, 1.0)
        moves = weights * self.dynamics.sumdiff[rows]
        return np.abs(moves), alike * np.outer(moves, moves), alike * np.outer(weights, weights)

    @property
    def moves(self) -> Floats:
        """|w|·R of each item."""
        return self._moves[0]

    def sizes(self, part: int) -> tuple[Floats, Floats]:
        """raw and norm of a part, each as an array of one."""
        if len(self.query.items) <= MOST_ITEMS:
            raw, norm = self._all_sizes
            return raw[part : part + 1], norm[part : part + 1]
        members = self.members(part)
        inside = np.ix_(members, members)
        _, raws, norms = self._moves
        return _rooted(np.array([raws[inside].sum()]), raws), _rooted(np.array([norms[inside].sum()]), norms)

    @cached_property
    def _all_sizes(self) -> tuple[Floats, Floats]:
        """raw and norm of all subsets."""
        self._small_enough()
        _, raws, norms = self._moves
        raw, norm = np.empty(self.whole + 1), np.empty(self.whole + 1)
        quadratic(raws, raw)
        quadratic(norms, norm)
        return _rooted(raw, raws), _rooted(norm, norms)

    @cached_property
    def tables(self) -> SubsetTables:
        """The tables over all subsets of the items."""
        raw, norm = self._all_sizes
        floors, holders = np.empty(self.whole + 1), np.empty(self.whole + 1, np.int64)
        least_total(self.floors, floors, holders)
        spent, most = np.zeros(self.whole + 1), np.full(self.whole + 1, np.inf)
        if self.floors_take:
            bits = np.arange(self.whole + 1)[:, None] >> np.arange(len(self.query.items)) & 1
            some = holders >= 0
            amounts, offs = self.amounts * bits[some], np.where(bits[some] == 1, self.floors[holders[some]], 0.0)
            spent[some] = np.maximum(floors[some] - half_steps(amounts, offs), 0.0)
            most[some] = most_sent(self.model, amounts, offs) * (1 - TOGETHER * bits[some].sum(axis=1))
        return SubsetTables(self.model.amounts(raw, norm) ** self._rooting, floors, holders, spent, most)

    @cached_property
    def amounts(self) -> Floats:
        """Amount of the cost model for each item alone."""
        return np.array([self.amount(1 << place) for place in range(len(self.query.items))])

    @property
    def _rooting(self) -> float:
        return 1.0 / (self.model.exponent + 1.0)

    def members(self, part: int) -> list[int]:
        """The places of a part's items in the query."""
        return [place for place in range(len(self.query.items)) if part >> place & 1]

    def amount(self, part: int) -> float:
        """Amount of the cost model for a part."""
        return float(self.model.amounts(*self.sizes(part))[0])

    def root(self, part: int) -> float:
        """a^(1/(p+1)): bounds that rest on no floor are in proportion to it."""
        return math.pow(self.amount(part), self._rooting)

    def gain_root(self, part: int) -> float:
        """The same of the amount that max-gain uses."""
        return math.pow(self.model.gain_amounts(*self.sizes(part))[0], self._rooting)

    def holder(self, part: int) -> tuple[int, float]:
        """The offer that promises a part most tightly, and how tightly; −1 and infinite where none has all of it."""
        totals = self.floors[:, self.members(part)].sum(axis=1)
        if not len(totals) or totals.min() == np.inf:
            return -1, np.inf
        return int(totals.argmin()), float(totals.min())

    @cached_property
    def tightest(self) -> float:
        """The least bound for which there is a plan: each item apart, where it is held most closely."""
        return float(self.floors.min(axis=0).sum()) if self.offers else np.inf

    def check_offered(self) -> None:
        """Refuse items that no aggregator offers."""
        nowhere = np.flatnonzero(~(self.floors < np.inf).any(axis=0))
        missing = [self.query.items[place] for place in nowhere]
        if missing:
            raise Infeasible(
                f"no aggregator offers {', '.join(missing[:5])}: let one hold it, or ask the node itself",
                tightest=np.inf,
            )

    def planned(self, planner: str, parts: Iterable[tuple[int, int]]) -> NetworkPlan:
        """Share the bound out among parts, given as (offer, set), and make the plan."""
        chosen = list(parts)
        roots = np.array([self.root(part) for _, part in chosen])
        floors = np.array([self.floors[offer, self.members(part)].sum() for offer, part in chosen])
        spent, most = np.array([self.taken(offer, part) for offer, part in chosen]).reshape(-1, 2).T
        shares = np.empty(len(chosen))
        if share_out(roots, floors, spent, most, self.model.exponent, self.query.within, shares) < 0:
            raise self.infeasible(planner, float(floors.sum()))
        return self.plan(planner, chosen, shares.tolist())

    def taken(self, offer: int, part: int) -> tuple[float, float]:
        """Bound that a part spends on held errors at an offer, and the part's highest cost without the factor."""
        if not self.floors_take:
            return 0.0, np.inf
        members = self.members(part)
        amounts, floors = self.amounts[members], self.floors[offer, members]
        spent = float(floors.sum() - half_steps(amounts, floors))
        most = most_sent(self.model, amounts, floors) * (1 - TOGETHER * len(members))
        return max(spent, 0.0), float(most)

    def cost(self, offer: int, part: int, within: float) -> float:
        """Messages an hour of a part at an offer within a bound."""
        if not self.floors_take:
            return messages(self.model, self.amount(part), within)
        members = self.members(part)
        return held_messages(self.model, self.amount(part), within, self.amounts[members], self.floors[offer, members])

    def plan(self, planner: str, parts: Sequence[tuple[int, int]], shares: Sequence[float]) -> NetworkPlan:
        """The plan with these parts and bounds."""
        made = []
        for (offer, part), share in zip(parts, shares, strict=True):
            members = self.members(part)
            made.append(
                Part(
                    self.offers[offer].aggregator,
                    tuple(self.query.items[place] for place in members),
                    tuple(self.query.weights[place] for place in members),
                    float(share),
                    float(self.floors[offer, members].sum()),
                    self.cost(offer, part, float(share)),
                )
            )
        return NetworkPlan(planner, self.query, tuple(made))

    def infeasible(self, planner: str, needed: float) -> Infeasible:
        """The error for a choice that cannot be within the bound."""
        if self.tightest > self.query.within:
            advice = f"no plan keeps less than {self.tightest:g}: ask for that, or hold the items more closely"
        else:
            advice = f"there are plans down to {self.tightest:g}: plan exactly, or with a larger α"
        return Infeasible(
            f"within {self.query.within:g} was asked, the aggregators that {planner} chose keep {needed:g}; {advice}",
            tightest=self.tightest,
        )

    def _small_enough(self) -> None:
        if len(self.query.items) > MOST_ITEMS:
            raise PlanningError(
                f"a query of {len(self.query.items)} items is too large to look at all its parts, {MOST_ITEMS} is the "
                f"most: cut it by max-gain, which has no such limit"
            )


class Planner(Protocol):
    """Makes plans; the contract stands at the top of `base`."""

    @property
    def name(self) -> str:
        """Name of the planner in tables and plans."""
        ...

    def __call__(self, problem: Problem) -> NetworkPlan:
        """Plan a query."""
        ...


def _rooted(squares: Floats, terms: Floats) -> Floats:
    """√ of sums of terms, where what is left when large terms cancel is rounding and not movement.

    Similarities that were estimated, or a pair sum that is taken twice, may make a square negative.
    """
    return np.sqrt(np.where(squares < 1e-14 * np.trace(terms), 0.0, squares))
