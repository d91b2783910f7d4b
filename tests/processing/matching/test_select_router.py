import itertools

import numpy as np

from slackwater.processing.matching import SELECT, JoinRows, JoinSide, MatchRoute, SelectRouter, select_joins
from slackwater.processing.matching.costs import Situation, estimated, features, fitted


def situation(joining: list[float], selected: list[float]) -> Situation:
    return Situation(
        rows_across=1000,
        queries=5000,
        hot_groups=7,
        hot_roots=90.0,
        scattered=100,
        joining=np.array(joining),
        selected=np.array(selected),
        selected_scattered=np.array(selected) / 10,
    )


def test_constants_are_found_again() -> None:
    rng = np.random.default_rng(1)
    about = situation(rng.integers(0, 200, 60).tolist(), rng.integers(0, 900, 60).tolist())
    for route in MatchRoute:
        terms = features(route, about)
        true = rng.uniform(1e-9, 1e-7, terms.shape[1])
        seconds = terms @ true
        again = fitted(terms, seconds)
        assert min(again) >= 0
        assert np.allclose(terms @ np.array(again), seconds, rtol=1e-6)


def test_what_joins_with_nothing_costs_a_search_only() -> None:
    about = situation([0.0, 10.0], [0.0, 100.0])
    for route in MatchRoute:
        constants = {route: tuple(1.0 for _ in features(route, about)[0])}
        costs = estimated(route, about, constants)
        assert costs[0] == np.log2(1002)
        assert costs[1] > costs[0]


def made(queries: int = 3000) -> SelectRouter:
    rng = np.random.default_rng(2)
    router = SelectRouter(SELECT, 0.01)
    low, across = rng.uniform(0, 100, queries), rng.uniform(0, 100, queries)
    router.add(select_joins(np.arange(queries), low, low + 1, across, across + rng.exponential(3, queries)))
    keys = np.concatenate((np.zeros(2000), np.arange(1.0, 2001.0)))
    router.insert(JoinSide.RIGHT, JoinRows(np.arange(4000), keys, rng.uniform(0, 100, (4000, 1))))
    return router


def rows(keys: list[float], own: float) -> JoinRows:
    return JoinRows(np.arange(len(keys)), np.array(keys), np.full((len(keys), 1), own))


def test_estimates_are_near_the_truth() -> None:
    router = made()
    asked = rows([0.0, 5.0, -1.0], 50.0)
    about = router._situation(JoinSide.LEFT, asked.join, asked.attributes)
    queries = router._queries
    wanted = ((queries.lows[0][:3000, 0] <= 50) & (queries.highs[0][:3000, 0] >= 50)).sum()
    assert about.joining.tolist() == [2000, 1, 0]
    assert 0.5 * wanted < about.selected[0] < 2 * wanted
    assert about.selected[2] == 0


def test_calibration_measures_every_route() -> None:
    router, ticks = made(), itertools.count()
    before = dict(router.constants)
    router.calibrate(JoinSide.LEFT, rows([0.0, 5.0, 6.0, -1.0] * 4, 50.0), lambda: next(ticks) * 1e-3)
    assert all(router.constants[route] != before[route] for route in MatchRoute)
    assert all(constant >= 0 for own in router.constants.values() for constant in own)


def test_rows_go_where_they_are_cheap() -> None:
    """With joining rows dear, a key with one partner goes first by its join, one with thousands does not."""
    router = made()
    router.constants = {
        MatchRoute.JOIN_FIRST: (0.0, 1.0, 0.0),
        MatchRoute.EACH_QUERY: (0.0, 9.0, 0.0),
        MatchRoute.SELECT_FIRST: (0.0, 0.0, 2.0),
        MatchRoute.HOTSPOT: (9.0, 9.0, 9.0, 9.0, 9.0, 9.0),
    }
    asked = rows([0.0, 5.0], 50.0)
    assert router.routes(JoinSide.LEFT, asked) == [MatchRoute.SELECT_FIRST, MatchRoute.JOIN_FIRST]
    router.match(JoinSide.LEFT, asked)
    assert router.shares[MatchRoute.SELECT_FIRST] == router.shares[MatchRoute.JOIN_FIRST] == 0.5


def test_ends_near_those_of_double_make_no_estimate_that_is_none() -> None:
    far = 1e300
    for low, high in (
        (far, far),
        (-far, far),
        (np.nextafter(far, 0), far),
        (-1.7e308, 1.7e308),
        (1.7e308, 1.7e308),
        (5e-324, 1e-323),
        (0.25, 0.5),
    ):
        router = SelectRouter(SELECT)
        ends = np.array([low]), np.array([high])
        router.add(select_joins(np.array([1]), *ends, *ends))
        router.insert(JoinSide.RIGHT, JoinRows(np.array([1]), np.array([0.0]), np.array([[high]])))
        asked = rows([0.0, 0.0], high)
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            about = router._situation(JoinSide.LEFT, asked.join, asked.attributes)
            assert np.isfinite(about.selected).all(), (low, high)
            assert router.match(JoinSide.LEFT, asked).queries.tolist() == [1, 1]
        histogram = router._histograms(JoinSide.LEFT)[0]
        assert np.isfinite(histogram.starts).all()
        assert np.isfinite(histogram.values).all()
