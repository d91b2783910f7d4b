"""Worked example of docs/network-plans.md: `python -m experiments.plans.example` prints its `EXPLAIN` and its figures.

Two aggregators, five shares that walk, SAP most. The real planner is told what the aggregators would count: an item is
heard of when it has left its bound, and a part is sent when the sum of what was heard has left what its floor leaves.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from statistics import median

from slackwater.aggregator.inherited_error import floor, rest
from slackwater.core.bound import Bound
from slackwater.core.query import Aggregate, AggregateFunction, Weight
from slackwater.core.schema import Column, TableSchema
from slackwater.core.statement import Subscribe
from slackwater.core.types import DataType, Key
from slackwater.planning.aggregation.movement import MovementModel
from slackwater.server.planners.network.base import (
    HERE,
    AggregatorReport,
    Instruction,
    LivePart,
    LivePlan,
    NetworkRules,
    Replan,
)
from slackwater.server.planners.network.explain import explained
from slackwater.server.planners.network.planner import Drafter
from slackwater.server.planners.network.state import NetworkState
from slackwater.sql import Catalog, to_sql

_SECOND = 1_000_000
COLUMN = ("quotes", "price")
QUOTES = TableSchema(
    "quotes", (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE)), key=("symbol",)
)
WEIGHTS = {"IBM": 4.0, "MSFT": 2.0, "ORCL": 3.0, "SAP": 5.0, "XOM": 1.0}
STEPS = {"IBM": 0.1, "MSFT": 0.1, "ORCL": 0.1, "SAP": 0.4, "XOM": 0.05}
"""By how much a share moves in a tenth of a second."""
HELD = {"near": {"IBM": 0.2, "MSFT": 0.2, "ORCL": 0.2}, "far": {"ORCL": 0.1, "SAP": 0.1}}
SUM = Aggregate(
    "quotes",
    AggregateFunction.SUM,
    "price",
    Bound(12.0),
    weights=tuple(Weight((symbol,), weight) for symbol, weight in WEIGHTS.items()),
)


class Market:
    """Prices, what aggregators have heard of them, and what parts have sent."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.prices = dict.fromkeys(WEIGHTS, 100.0)
        self._heard = {name: dict.fromkeys(items, 100.0) for name, items in HELD.items()}
        self._said: dict[str, float] = {}
        self.sent: Counter[str] = Counter()

    def tick(self, parts: tuple[LivePart, ...]) -> None:
        """A tenth of a second."""
        for symbol, step in STEPS.items():
            self.prices[symbol] += self._random.gauss(0.0, step)
            for name, items in HELD.items():
                if symbol in items and abs(self._heard[name][symbol] - self.prices[symbol]) > items[symbol]:
                    self._heard[name][symbol] = self.prices[symbol]
        for part in parts:
            self._look(part, self._heard.get(part.aggregator, self.prices))

    def _look(self, part: LivePart, known: Mapping[str, float]) -> None:
        weights = [(str(one.key[0]), one.factor) for one in part.query.weights or ()]
        held = HELD.get(part.aggregator, dict.fromkeys(known, 0.0))
        taken = floor(AggregateFunction.SUM, 1.0, [(weight, held[symbol]) for symbol, weight in weights])
        left = rest(part.within, max(taken, Fraction(0)))
        value = sum(weight * known[symbol] for symbol, weight in weights)
        if abs(value - self._said.setdefault(part.text, value)) > left:
            self._said[part.text] = value
            self.sent[part.text] += 1

    def hour(self, plan: LivePlan) -> list[int]:
        """What each part of a plan sends in an hour."""
        before = self.sent.copy()
        for _ in range(36_000):
            self.tick(plan.parts)
        return [self.sent[part.text] - before[part.text] for part in plan.parts]


def run(seconds: int, seed: int = 1) -> NetworkState:
    """A planner after so many seconds, with windows of ten."""
    rules = NetworkRules(window=10 * _SECOND)
    catalog = Catalog((QUOTES,))
    state = NetworkState(HELD, rules, MovementModel(), lambda part: to_sql(Subscribe(part), catalog))
    market = Market(Random(seed))
    for second in range(seconds + 1):
        now = second * _SECOND
        todo: list[Instruction] = []
        for name, items in HELD.items():
            held = {COLUMN: _by_key(items)}
            todo += state.heard(name, AggregatorReport(1, held, None, _counts(state, market, name)), now)
        state.counted(HERE, 1, _counts(state, market, HERE))
        if second == 0:
            state.registered(1, 0, SUM, now)
        for one in todo:
            assert isinstance(one, Replan)
            state.registered(one.number, one.epoch, SUM, now)
        plan = state.queries[1].plan
        assert plan is not None
        for _ in range(10):
            market.tick(plan.parts)
    return state


def _by_key(items: Mapping[str, float]) -> dict[Key, float]:
    return {(symbol,): within for symbol, within in items.items()}


def _counts(state: NetworkState, market: Market, name: str) -> dict[str, int]:
    return {text: market.sent[text] for text in state.parts_at(name)}


@dataclass(frozen=True, slots=True)
class Foretold:
    """Messages in an hour of a second plan, made of what was counted of the first: expected, and then counted."""

    expected: float
    counted: int


def foretold(seed: int) -> Foretold:
    """Plan, count for an hour, believe it, plan again, count again."""
    drafter = Drafter(NetworkRules(), MovementModel(), str)
    held = {name: _by_key(items) for name, items in HELD.items()}
    market = Market(Random(seed))
    first = drafter.plan(SUM, held)
    for part, sent in zip(first.parts, market.hour(first), strict=True):
        drafter.movement.correct(COLUMN, part.items, sent, drafter.expected(part))
        # One correction is limited to a thousandfold, and nothing was known at first.
        drafter.movement.correct(COLUMN, part.items, sent, drafter.expected(part))
    second = drafter.plan(SUM, held)
    return Foretold(sum(map(drafter.expected, second.parts)), sum(market.hour(second)))


def main() -> None:
    """Print the plan after ten minutes, and how well second plans are foretold in five worlds."""
    state = run(600)
    print(explained(state, SUM, state.queries[1]).text())
    ratios = sorted(one.counted / one.expected for one in map(foretold, range(1, 6)))
    print(
        f"counted is {median(ratios):.2f} of what was expected of the second plan, "
        f"from {ratios[0]:.2f} to {ratios[-1]:.2f}"
    )


if __name__ == "__main__":
    main()
