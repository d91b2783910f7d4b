"""Uncertainty scheduler, simulated: a whole run over a trace in one compiled loop.

Design
    Every tick: judge the tick that is `longest` + 1 past and move the prices of violation (`pull_prices`). Then come
    rounds until one picks nothing: what is known of items and queries (`pull_models`), the items that are worth their
    cost (`pull_choice`), their pulls, and what these teach (`pull_updates`). Then the errors that the pulls have left
    are compared with the bounds. The plain scheduler of `planning.pulling.uncertainty`, driven tick by tick, is the
    plain twin of this loop.

`wake` of a live scheduler has no part here: a simulation asks at every tick.
"""

import math

import numpy as np

from slackwater.kernels.jit import compiled
from slackwater.kernels.pull_choice import pick_due, pick_worth
from slackwater.kernels.pull_models import know_items, know_queries
from slackwater.kernels.pull_prices import judge_tick
from slackwater.kernels.pull_tables import (
    Floats,
    Integers,
    ItemTable,
    KnownTable,
    PastTable,
    PriceTable,
    PullConstants,
    PulledQueries,
    table_clock,
    table_queries,
)
from slackwater.kernels.pull_updates import bridge_past, learn_surprise, score_models, see_value


@compiled
def _table_items(n: int, models: int, c: PullConstants) -> ItemTable:
    return ItemTable(
        np.zeros(n),
        np.full(n, -1, np.int64),
        np.zeros(n, np.int64),
        np.full((n, models), -1.0),
        np.zeros((n, models)),
        np.zeros((n, 5)),
        np.full(n, c.first_loading),
        np.zeros(n),
        np.full(n, -1, np.int64),
    )


@compiled
def _table_prices(table: PulledQueries, cost: float, fixed_price: float, size: int, c: PullConstants) -> PriceTable:
    """Accounts that owe nothing, with the first prices: by the mean cost of a pull and the queries an item has."""
    queries = len(table.within)
    held = 0
    for i in range(len(table.first) - 1):
        if table.first[i + 1] > table.first[i]:
            held += 1
    soon, base, price = np.zeros((queries, size)), np.zeros(queries), np.zeros(queries)
    for q in range(queries):
        base[q] = math.log(c.first_price * cost / (1.0 - table.fidelity[q]) / (len(table.items) / held))
        price[q] = math.exp(base[q]) if fixed_price <= 0.0 else fixed_price
        soon[q, :] = 1.0 - table.fidelity[q]
    return PriceTable(
        *(np.zeros(queries), np.zeros(queries), np.zeros(queries), np.zeros(queries), np.zeros(queries)),
        *(soon, np.zeros(queries), np.zeros(queries), base, price),
    )


@compiled
def simulate(
    trace: Floats,
    starts: Integers,
    items: Integers,
    weights: Floats,
    within: Floats,
    fidelity: Floats,
    costs: Floats,
    longest: int,
    warm: int,
    fixed_price: float,
    c: PullConstants,
    pulls: Integers,
    broken: Integers,
    errors: Floats,
    over_time: Integers,
    estimated: Floats,
) -> None:
    """Count pulls by item, and ticks outside the bound and Σ|error| / B by query, from tick `warm` on.

    `over_time[t]` becomes the number of queries outside at tick t, `estimated[q]` what the scheduler thinks it
    delivered in all. `fixed_price` above 0 is the price of a tick of violation for all queries, without feedback.
    """
    ticks, n = trace.shape
    queries = len(within)
    size = longest + 2
    table = table_queries(starts, items, weights, within, fidelity, n)
    clock = table_clock(c.staying, size)
    state = _table_items(n, 2 * len(c.staying), c)
    past = PastTable(np.full((n, size), np.nan), np.zeros((n, size)), np.ones((n, size)), np.ones((n, size)))
    prices = _table_prices(table, costs.sum() / n, fixed_price, size, c)
    known = KnownTable(
        *(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)),
        *(np.zeros(queries), np.zeros(queries), np.zeros(queries)),
    )
    feedback = np.array([0.0, 1.0, 0.0])
    clock_score, wild = 0.0, c.first_wild
    gain, waited = np.zeros(n), np.zeros(n)
    picked, unsure = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for now in range(ticks):
        for i in range(n):
            waited[i] += gain[i]
        # The tick that can be judged now.
        tick = now - longest - 1
        if tick >= 0:
            judge_tick(table, past, prices, state.loading, tick, now, wild, fixed_price > 0.0, feedback, c)
        if now > 0:
            clock.pace[now % size] = 1.0 + c.returning * (clock.pace[(now - 1) % size] - 1.0)
        clocked = clock_score > 0.0
        while True:
            know_items(state, clock, now, clocked, c, known)
            know_queries(table, wild, known)
            count = pick_due(table, state, now, longest, picked, c)
            count = pick_worth(table, state, known, prices.price, costs, now, wild, gain, waited, unsure, picked, count)
            if count == 0:
                break
            for k in range(count):
                i = picked[k]
                new = trace[now, i]
                if now >= warm:
                    pulls[i] += 1
                if state.last[i] >= 0 and now > state.last[i]:
                    clock_score, square, zed = score_models(state, clock, i, now, new, clocked, clock_score, c)
                    if square >= 0.0:
                        wild = learn_surprise(state, i, now, zed, wild, c)
                    bridge_past(state, clock, past, i, now, new, clocked, c)
                see_value(state, past, i, now, new, c)
                waited[i] = 0.0
                gain[i] = 0.0
        for i in range(n):
            if state.last[i] == now:
                gain[i] = 0.0
        for q in range(queries):
            if now >= c.settling:
                prices.expected[q] += known.chance[q] - prices.soon[q, now % size]
                prices.soon[q, now % size] = known.chance[q]
            error = 0.0
            for k in range(starts[q], starts[q + 1]):
                error += weights[k] * (trace[now, items[k]] - state.value[items[k]])
            if abs(error) > within[q]:
                over_time[now] += 1
                if now >= warm:
                    broken[q] += 1
            if now >= warm and within[q] > 0.0:
                errors[q] += abs(error) / within[q]
    for q in range(queries):
        estimated[q] = prices.kept[q] / prices.judged[q] if prices.judged[q] > 0.0 else np.nan
