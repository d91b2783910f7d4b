"""Reference statistics, the test oracles: every figure computed from scratch from a list of rows.

A reference returns the figures under the names that the summaries give them, items in order of name.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from slackwater.kernels.changes import sum_changes_plainly
from slackwater.kernels.lags import sum_lags_plainly
from slackwater.kernels.ternary_grid import WIDEST, transitions_plainly
from slackwater.statistics import Rules

Row: TypeAlias = tuple[str, int, float]
"""Item, time, value."""
RangeRow: TypeAlias = tuple[str, int, float, float]
Figures: TypeAlias = dict[str, Any]


def histories(rows: Sequence[Row]) -> dict[str, tuple[list[int], list[float]]]:
    """Times and values of each item, in order of name; rows are in order of time."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for item, time, value in rows:
        times, values = found.setdefault(item, ([], []))
        times.append(time)
        values.append(value)
    return dict(sorted(found.items()))


def half(rules: Rules) -> float:
    return float(rules.half_life or 0)


def fades(rows: Sequence[Any], rules: Rules) -> Callable[[int], float]:
    """By how much a moment has faded at the end of all."""
    last = max(row[1] for row in rows)
    return lambda at: 2.0 ** (-(last - at) / rules.half_life) if rules.half_life else 1.0


def movement(rows: Sequence[Row], rules: Rules) -> Figures:
    table: dict[str, list[Any]] = {}
    fade = fades(rows, rules)
    for times, values in histories(rows).values():
        sums = sum_changes_plainly(times, values, rules.gap, half(rules))
        faded = fade(times[-1])
        for name, figure in {
            "ticks": len(times),
            "changes": sums[0],
            "gaps": sums[7],
            "weight": sums[1] * faded,
            "sumdiff": sums[3] * faded,
            "drift": sums[4] * faded,
            "square": sums[5] * faded,
            "largest": sums[6],
            "elapsed": sums[2] * faded / 1e6,
            "gap_sumdiff": sums[10] * faded,
            "gap_elapsed": sums[9] * faded / 1e6,
            "first_time": times[0],
            "first_value": values[0],
            "last_time": times[-1],
            "last_value": values[-1],
        }.items():
            table.setdefault(name, []).append(figure)
    return {"items": tuple(histories(rows)), **table}


def moments(rows: Sequence[Row], rules: Rules, lags: int) -> Figures:
    table: dict[str, list[Any]] = {}
    fade = fades(rows, rules)
    for times, values in histories(rows).values():
        (weight, mean, centred, low, high), pairs = sum_lags_plainly(times, values, rules.gap, half(rules), lags)
        floor = (1e-13 * max(abs(low), abs(high))) ** 2
        settled = [[*pair[:3], *(end if end > floor * pair[0] else 0.0 for end in pair[3:6:2])] for pair in pairs]
        products = [pair[4] for pair in pairs]
        total, before, after, first, second = settled[0]
        coefficient = products[0] / first if first else 0.0
        left = second - coefficient * products[0]
        noise = math.sqrt(left / total) if left > 1e-12 * second else 0.0
        for name, figure in {
            "ticks": len(times),
            "weight": weight * fade(times[-1]),
            "mean": mean,
            "variance": centred / weight,
            "low": low,
            "high": high,
            "pair_weight": [pair[0] * fade(times[-1]) for pair in pairs],
            "autocovariance": [pair[4] / pair[0] if pair[0] else 0.0 for pair in pairs],
            "autocorrelation": [
                product / math.sqrt(pair[3] * pair[4]) if pair[3] * pair[4] else 0.0
                for pair, product in zip(settled, products, strict=True)
            ],
            "before_mean": [pair[1] for pair in settled],
            "after_mean": [pair[2] for pair in settled],
            "before_variance": [pair[3] / pair[0] if pair[0] else 0.0 for pair in settled],
            "after_variance": [pair[4] / pair[0] if pair[0] else 0.0 for pair in settled],
            "coefficient": coefficient,
            "constant": after - coefficient * before,
            "noise": noise,
        }.items():
            table.setdefault(name, []).append(figure)
    return {"items": tuple(histories(rows)), **table}


def _levels_tried(times: list[int], values: list[float], rules: Rules, tick: int, cells: int) -> tuple[int, Any]:
    """The lowest level that fits, found by trying them one after the other."""
    lengths = [max(1, (2 * (b - a) + tick) // (2 * tick)) if tick else 1 for a, b in pairwise(times)]
    steps = zip(times, times[1:], values, values[1:], lengths, strict=False)
    largest = max((abs((w - v) / m) for a, b, v, w, m in steps if b - a <= rules.gap), default=0.0)
    if largest == 0.0:
        counts = transitions_plainly(times, values, rules.gap, half(rules), tick, -640)
        return -640, counts
    level = math.floor(math.log(largest, 3)) - 9
    while largest > WIDEST * 3.0**level:
        level += 1
    while len(counts := transitions_plainly(times, values, rules.gap, half(rules), tick, level)) > cells:
        level += 1
    return level, counts


def markov(rows: Sequence[Row], rules: Rules, tick: int, cells: int) -> Figures:
    chains = []
    fade = fades(rows, rules)
    for times, values in histories(rows).values():
        level, counts = _levels_tried(times, values, rules, tick, cells)
        transitions = sorted(counts)
        chains.append(
            {
                "spacing": 3.0**level,
                "before": [before for before, _ in transitions],
                "after": [after for _, after in transitions],
                "weights": [counts[each] * fade(times[-1]) for each in transitions],
                "level": level,
                "widest": None,
            }
        )
    return {"items": tuple(histories(rows)), "chains": chains}


def markov_fixed(rows: Sequence[Row], rules: Rules, spacing: dict[str, float], widest: int) -> Figures:
    chains = []
    fade = fades(rows, rules)
    for item, (times, values) in histories(rows).items():
        counts: dict[tuple[int, int], float] = {}
        known: int | None = None
        for i in range(1, len(times)):
            if times[i] - times[i - 1] > rules.gap:
                known = None
                continue
            state = max(-widest, min(widest, round((values[i] - values[i - 1]) / spacing[item])))
            if known is not None:
                counts[known, state] = counts.get((known, state), 0.0) + fade(times[i])
            known = state
        transitions = sorted(counts)
        chains.append(
            {
                "spacing": spacing[item],
                "before": [before for before, _ in transitions],
                "after": [after for _, after in transitions],
                "weights": [counts[each] for each in transitions],
                "level": None,
                "widest": widest,
            }
        )
    return {"items": tuple(histories(rows)), "chains": chains}


def similarity(rows: Sequence[Row], rules: Rules, period: int) -> Figures:
    items = tuple(histories(rows))
    last = max(row[1] for row in rows) // period
    bins = sorted({time // period for _, time, _ in rows})
    changes = np.zeros((len(bins), len(items)))
    for column, (times, values) in enumerate(histories(rows).values()):
        for i in range(1, len(times)):
            if times[i] - times[i - 1] <= rules.gap:
                changes[bins.index(times[i] // period), column] += values[i] - values[i - 1]
    ages = np.array([(last - each) * period for each in bins])
    weights = np.exp2(-ages / rules.half_life) if rules.half_life else np.ones(len(bins))
    return {"items": items, "gram": changes.T @ (changes * weights[:, None])}


def _cells(points: Sequence[tuple[float, float]], most: int) -> dict[str, Any]:
    """(value, weight) on the finest dyadic grid that fits, found by trying."""
    level = max((math.frexp(value)[1] - 20 for value, _ in points if value), default=-1022)
    while True:
        found: dict[int, float] = {}
        for value, weight in points:
            cell = math.floor(math.ldexp(value, -level))
            found[cell] = found.get(cell, 0.0) + weight
        if len(found) <= most:
            edges = [math.ldexp(cell, level) for cell in sorted(found)]
            return {"width": 2.0**level, "edges": edges, "weights": [found[cell] for cell in sorted(found)]}
        level += 1


def histogram(rows: Sequence[Row], rules: Rules, cells: int) -> Figures:
    fade = fades(rows, rules)
    found = histories(rows)
    return {
        "items": tuple(found),
        "distributions": [
            _cells([(value, fade(time)) for time, value in zip(*history, strict=True)], cells)
            for history in found.values()
        ],
    }


def coverage(rows: Sequence[RangeRow], rules: Rules, cells: int) -> Figures:
    fade = fades(rows, rules)
    items = sorted({row[0] for row in rows})
    coverings = []
    for item in items:
        own = [(fade(time), low, high) for name, time, low, high in rows if name == item]
        coverings.append(
            {
                "total": sum(w for w, _, _ in own),
                "unbounded_below": sum(w for w, low, _ in own if low == -math.inf),
                "unbounded_above": sum(w for w, _, high in own if high == math.inf),
                "lows": _cells([(low, w) for w, low, _ in own if low > -math.inf], cells),
                "highs": _cells([(high, w) for w, _, high in own if high < math.inf], cells),
            }
        )
    return {"items": tuple(items), "coverings": coverings}


def fidelity(rows: Sequence[Row], rules: Rules) -> Figures:
    fade = fades(rows, rules)
    table: dict[str, list[Any]] = {}
    for times, values in histories(rows).values():
        steps = [(b - a, said, fade(b)) for a, b, said in zip(times, times[1:], values, strict=False)]
        near = [step for step in steps if step[0] <= rules.gap]
        far = [step for step in steps if step[0] > rules.gap]
        weight = sum(fade(time) for time in times)
        by_tick = sum(fade(time) * value for time, value in zip(times, values, strict=True)) / weight
        seconds = sum((w * length for length, _, w in near), 0.0) / 1e6
        within = sum((w * length * said for length, said, w in near), 0.0) / 1e6
        for name, figure in {
            "ticks": len(times),
            "weight": weight,
            "by_tick": by_tick,
            "by_time": within / seconds if seconds else by_tick,
            "seconds": seconds,
            "gaps": len(far),
            "gap_seconds": sum((w * length for length, _, w in far), 0.0) / 1e6,
        }.items():
            table.setdefault(name, []).append(figure)
    return {"items": tuple(histories(rows)), **table}
