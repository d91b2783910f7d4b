"""Measures of pulling: fidelity kept, pulls at equal fidelity, ratios to clairvoyants, forecast errors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from experiments.pulling.simulation import run_predicted
from experiments.pulling.workload import bounded, portfolios
from slackwater.planning.pulling import CHOICES, ChainSettings, Outcome, PullQuery, run_uncertainty
from slackwater.planning.pulling.forecast import Forecast, strength

Floats = npt.NDArray[np.float64]
Drawn = list[tuple[tuple[int, ...], tuple[float, ...]]]

WARM = 400
FACTORS = (0.01, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
PRICES = (3e-4, 2e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 4.0, 20.0)


def drawn(trace: Floats, count: int, seed: int = 11) -> Drawn:
    """Queries for a trace: 2 to 8 items, 2 to 4 where there are only four."""
    return portfolios(count, trace.shape[1], np.random.default_rng(seed), 4 if trace.shape[1] == 4 else 8)


def spacings(trace: Floats) -> list[float]:
    """δ of the chains: half the deviation of a change in the warm-up, seen at every tick, to the chains' advantage."""
    found = np.std(np.diff(trace[:WARM], axis=0), axis=0) / 2
    return [float(each) if each > 0 else 1.0 for each in found]


@dataclass(frozen=True, slots=True)
class Point:
    """A run as a point: fidelity delivered on average, and pulls."""

    fidelity: float
    pulls: int

    @classmethod
    def of(cls, outcome: Outcome) -> "Point":
        """The point of a run."""
        return cls(float(outcome.fidelity.mean()), int(outcome.pulls.sum()))


def curve_of_uncertainty(queries: Sequence[PullQuery], trace: Floats) -> list[Point]:
    """Ours over many prices of violation, without feedback."""
    return [Point.of(run_uncertainty(queries, trace, WARM, price=price)) for price in PRICES]


def curves_of_the_paper(queries: Sequence[PullQuery], trace: Floats) -> dict[str, list[Point]]:
    """Every choice of the paper over many safety factors, without feedback; chains expected and drawn."""
    given = spacings(trace)

    def run(choice: str, factor: float, draw: bool) -> Outcome:
        random = np.random.default_rng(1) if draw else None
        chain = ChainSettings(draw=draw)
        return run_predicted(queries, trace, given, choice, WARM, fixed=factor, settings=chain, random=random)

    return {
        choice + (", drawn" if draw else ""): [Point.of(run(choice, factor, draw)) for factor in FACTORS]
        for choice in CHOICES
        for draw in (False, True)
    }


def pulls_at(points: Sequence[Point], fidelity: float) -> float | None:
    """Pulls at a fidelity: along the points that no other beats in both, log pulls by log loss; None outside them.

    >>> round(pulls_at([Point(0.9, 100), Point(0.99, 400), Point(0.95, 900)], 0.99 - 0.0217), 0)
    200.0
    """
    best: list[Point] = []
    for point in sorted(points, key=lambda each: (-each.fidelity, each.pulls)):
        if not best or point.pulls < best[-1].pulls:
            best.append(point)
    best.reverse()

    def loss(value: float) -> float:
        return math.log(1.0 - value + 1e-4)

    for low, high in pairwise(best):
        if low.fidelity <= fidelity <= high.fidelity:
            share = (loss(fidelity) - loss(low.fidelity)) / (loss(high.fidelity) - loss(low.fidelity))
            return math.exp((1 - share) * math.log(low.pulls) + share * math.log(high.pulls))
    if best and fidelity < best[0].fidelity:
        # The floor of TTRmax already gives more than is asked.
        return float(best[0].pulls)
    return None


def geometric(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def ranks_agree(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation, ties shared.

    >>> ranks_agree([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    0.5
    """

    def ranks(values: Sequence[float]) -> Floats:
        given = np.asarray(values)
        return np.array([(np.sum(given < each) + (np.sum(given == each) - 1) / 2) for each in given], np.float64)

    return round(float(np.corrcoef(ranks(one), ranks(other))[0, 1]), 6)


@dataclass(frozen=True, slots=True)
class Foretold:
    """How well pulls were foretold."""

    spearman: float
    median_error: float
    queries: int
    replayed_error: float
    """The median error of taking each query's very own pulls in the first half: no law, the scheduler itself."""
    level: float
    """Pulls that the median query needs in the second half, over those in the first: how much the world changed."""


def foretell(trace: Floats, queries: int, fidelity: float, run: Callable[..., Outcome] = run_uncertainty) -> Foretold:
    """Each query alone at one B for all: deviations and law from the first half, pulls of the second foretold."""
    half = len(trace) // 2
    before, after = np.ascontiguousarray(trace[:half]), np.ascontiguousarray(trace[half:])
    deviations = np.sqrt(np.mean(np.diff(before, axis=0) ** 2, axis=0)).tolist()
    made = bounded(drawn(trace, queries), before, 2.0, fidelity)
    within = float(np.median([query.bound.within for query in made]))
    alone = [
        PullQuery.total(query.items, query.weights, type(query.bound)(within, fidelity)) for query in made if within > 0
    ]
    warm = half // 4

    def measured(query: PullQuery, part: Floats) -> float:
        return float(run([query], part, warm).pulls.sum()) / (len(part) - warm)

    replayed = [measured(query, before) for query in alone]
    law = Forecast.fit([strength(query, deviations) for query in alone], replayed)
    told = [law.pulls(query, deviations) for query in alone]
    found = [measured(query, after) for query in alone]

    def wrong(told: Sequence[float]) -> float:
        return float(np.median([abs(a - b) / b for a, b in zip(told, found, strict=True) if b > 0]))

    return Foretold(
        ranks_agree(told, found),
        wrong(told),
        len(alone),
        wrong(replayed),
        float(np.median(found) / np.median(replayed)),
    )
