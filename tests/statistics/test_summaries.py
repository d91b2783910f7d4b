"""What the figures mean: small cases with known answers, and what is refused."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import StatisticsError
from slackwater.statistics import (
    Chain,
    Coverage,
    Fidelity,
    Histogram,
    Markov,
    Moments,
    Movement,
    Ranges,
    Rules,
    Similarity,
    Ticks,
    observations,
)

SECOND = 1_000_000


def one(values: list[float], times: list[int] | None = None, item: str = "a") -> Ticks:
    return Ticks.of([item] * len(values), times or [SECOND * i for i in range(len(values))], values)


class TestMovement:
    def test_a_night_is_reported_apart(self) -> None:
        movement = Movement(Rules(longest_gap=10 * SECOND))
        movement.update(one([1.0, 3.0, 10.0, 9.0], [0, SECOND, 50 * SECOND, 52 * SECOND]))
        figures = movement.value()
        assert figures.sumdiff.tolist() == [3.0]
        assert figures.per_tick.tolist() == [1.5]
        assert figures.per_second.tolist() == [1.0]
        assert (figures.changes.tolist(), figures.gaps.tolist()) == ([2], [1])
        assert (figures.gap_sumdiff.tolist(), figures.gap_elapsed.tolist()) == ([7.0], [49.0])
        assert figures.mean_change.tolist() == [0.5]
        assert figures.deviation.tolist() == [1.5]

    def test_after_a_half_life_a_change_counts_half(self) -> None:
        movement = Movement(Rules(half_life=10))
        movement.update(one([0.0, 8.0], [0, 10]))
        movement.update(one([8.0, 8.0], [20, 30]))
        assert movement.value().sumdiff.tolist() == [2.0]
        movement.update(one([5.0], [40], item="b"))
        assert movement.value().sumdiff.tolist() == [1.0, 0.0]
        assert movement.value().largest.tolist() == [8.0, 0.0]

    def test_a_window_is_the_pieces_inside_it(self) -> None:
        days = []
        for day in range(4):
            days.append(Movement())
            days[-1].update(one([0.0, float(day)], [day * 10, day * 10 + 1]))
        window = Movement.from_bytes(days[2].to_bytes())
        window.merge(days[3])
        assert window.value().sumdiff.tolist() == [2.0 + 2.0 + 3.0]


class TestMoments:
    def test_an_autoregressive_process_is_recognised(self) -> None:
        rng = np.random.default_rng(5)
        values = [20.0]
        for noise in rng.normal(0, 4.22, 40_000):
            values.append(0.72 * values[-1] + 5.59 + noise)
        moments = Moments(lags=3)
        moments.update(one(values))
        figures = moments.value()
        assert figures.coefficient[0] == pytest.approx(0.72, abs=0.02)
        assert figures.constant[0] == pytest.approx(5.59, abs=0.4)
        assert figures.noise[0] == pytest.approx(4.22, rel=0.02)
        assert figures.autocorrelation[0] == pytest.approx([0.72, 0.72**2, 0.72**3], abs=0.03)

    def test_values_far_from_zero_lose_no_digits(self) -> None:
        pattern = [0.0, 1.0, 0.0, -1.0] * 50
        near, far = Moments(), Moments()
        near.update(one(pattern))
        far.update(one([1e9 + value for value in pattern]))
        assert far.value().variance[0] == pytest.approx(near.value().variance[0], rel=1e-12)
        assert far.value().autocorrelation[0] == pytest.approx(near.value().autocorrelation[0], rel=1e-12, abs=1e-12)

    @pytest.mark.parametrize("value", [0.1, 1e9 + 0.1, -3.3])
    def test_what_does_not_vary_has_no_memory(self, value: float) -> None:
        moments = Moments()
        for start in range(0, 70, 7):
            moments.update(one([value] * 7, list(range(start, start + 7))))
        figures = moments.value()
        assert figures.mean.tolist() == [value]
        assert figures.variance.tolist() == [0.0]
        assert not figures.autocorrelation.any()
        assert (figures.coefficient.tolist(), figures.noise.tolist()) == ([0.0], [0.0])
        assert figures.constant.tolist() == [value]

    def test_lags_have_a_limit(self) -> None:
        for lags in (0, 65):
            with pytest.raises(StatisticsError, match="from 1 to 64"):
                Moments(lags=lags)


class TestMarkov:
    def test_a_change_over_several_ticks_stays_in_its_state(self) -> None:
        """A pull after m ticks: C(x,y) += 1 and C(y,y) += m − 1."""
        markov = Markov(tick=SECOND, spacing=1.0, widest=9)
        markov.update(one([0.0, 1.0, 7.0], [0, SECOND, 4 * SECOND]))
        assert markov.value()["a"].counts() == {(1, 2): 1.0, (2, 2): 2.0}

    def test_changes_beyond_the_widest_are_clamped(self) -> None:
        markov = Markov(spacing=0.5, widest=2)
        markov.update(one([0.0, 100.0, 0.0, 0.2]))
        assert markov.value()["a"].counts() == {(2, -2): 1.0, (-2, 0): 1.0}
        assert markov.value()["a"].state(-99.0) == -2

    def test_each_item_has_the_spacing_of_its_own_scale(self) -> None:
        rng = np.random.default_rng(3)
        walk = np.cumsum(rng.normal(0, 1, 20_000))
        markov = Markov(cells=512)
        for scale in (1e-9, 1.0, 1e9):
            markov.update(one((walk * scale).tolist(), item=str(scale)))
        for scale in (1e-9, 1.0, 1e9):
            chain = markov.value()[str(scale)]
            assert 512 / 9 < len(chain.weights) <= 512
            assert 0.1 < chain.spacing / scale < 1.0
            assert chain.weights.sum() == 20_000 - 2

    def test_a_jump_does_not_hide_the_small_changes(self) -> None:
        rng = np.random.default_rng(3)
        calm = np.round(np.cumsum(rng.normal(0, 1, 5_000)), 2)
        markov = Markov(cells=512)
        markov.update(one([*calm.tolist(), 100.0, 0.0]))
        assert markov.value()["a"].spacing < 1.0

    def test_an_item_that_never_moves_stays(self) -> None:
        markov = Markov()
        markov.update(one([5.0] * 4))
        chain = markov.value()["a"]
        assert chain.counts() == {(0, 0): 2.0}
        assert chain.expected(0) == 0.0

    def test_probabilities_with_a_prior(self) -> None:
        chain = Chain(1.0, np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([6.0, 2.0, 2.0]))
        states, shares = chain.probabilities(0, prior=2.0)
        assert states.tolist() == [0, 1]
        assert shares.tolist() == [(6 + 2 * 0.8) / 10, (2 + 2 * 0.2) / 10]
        _, unseen = chain.probabilities(77, prior=0.0)
        assert unseen == pytest.approx([0.8, 0.2])
        assert Chain(1.0, *(np.zeros(0, np.int64),) * 2, np.zeros(0)).probabilities(3)[0].tolist() == [0]

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.floats(-50, 50), min_size=3, max_size=40), st.sampled_from([0.0, 0.5, 3.0]))
    def test_every_row_is_a_distribution(self, values: list[float], prior: float) -> None:
        markov = Markov(cells=12)
        markov.update(one(values))
        chain = markov.value()["a"]
        for state in [*chain.states.tolist(), 999]:
            states, shares = chain.probabilities(state, prior)
            assert shares.sum() == pytest.approx(1.0)
            assert np.all(shares >= 0)
            assert np.all(np.diff(states) > 0)

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.integers(-900, 900).map(lambda n: n / 4), min_size=3, max_size=40))
    def test_the_chain_knows_the_state_of_a_change(self, values: list[float]) -> None:
        markov = Markov(cells=12)
        markov.update(one(values))
        chain = markov.value()["a"]
        states = [chain.state(after - before) for before, after in pairwise(values)]
        expected: dict[tuple[int, int], float] = {}
        for pair in pairwise(states):
            expected[pair] = expected.get(pair, 0.0) + 1.0
        assert chain.counts() == expected

    @pytest.mark.parametrize(
        "wrong",
        [
            {"tick": 0},
            {"spacing": 1.0},
            {"widest": 3},
            {"spacing": 0.0, "widest": 3},
            {"spacing": {"a": -1.0}, "widest": 3},
            {"spacing": 1.0, "widest": 0},
            {"spacing": 1.0, "widest": 1 << 20},
            {"cells": 0},
        ],
    )
    def test_parameters_that_make_no_sense(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(StatisticsError):
            Markov(**wrong)

    def test_an_item_without_a_spacing_is_named(self) -> None:
        markov = Markov(spacing={"a": 1.0}, widest=3)
        with pytest.raises(StatisticsError, match="item 'b'"):
            markov.update(one([1.0], item="b"))
        assert markov.names == ()


class TestSimilarity:
    def test_ticks_that_do_not_coincide_meet_in_their_bin(self) -> None:
        similarity = Similarity(period=100)
        similarity.update(one([0.0, 1.0, 3.0, 2.0], [10, 110, 210, 310], "a"))
        late = Similarity(period=100)
        rows = [("a", 10, 0.0), ("b", 90, 5.0), ("a", 110, 1.0), ("b", 150, 6.0), ("b", 190, 7.0), ("a", 210, 3.0)]
        rows += [("b", 260, 11.0), ("a", 310, 2.0), ("b", 399, 9.0)]
        late.update(Ticks.of(*([row[column] for row in rows] for column in range(3))))
        assert late.value().gram.tolist() == [[6.0, 12.0], [12.0, 24.0]]
        assert late.value().cosine("a", "b") == pytest.approx(1.0)

    def test_an_item_that_never_moved_is_like_nothing(self) -> None:
        similarity = Similarity(period=10)
        similarity.update(Ticks.of(["a", "b"] * 2, [0, 0, 10, 10], [1.0, 1.0, 2.0, 1.0]))
        assert similarity.value().matrix().tolist() == [[1.0, 0.0], [0.0, 0.0]]
        with pytest.raises(StatisticsError, match="'c'"):
            similarity.value().cosine("a", "c")

    @settings(max_examples=30, deadline=None)
    @given(
        st.integers(2, 30), st.integers(2, 40), st.floats(0.01, 1.0), st.integers(0, 5), st.sampled_from([None, 300])
    )
    def test_thin_and_full_bins_give_the_same(
        self, items: int, bins: int, share: float, seed: int, half_life: int | None
    ) -> None:
        rng = np.random.default_rng(seed)
        there = rng.random((bins, items)) < share
        there[0] = True
        values = np.cumsum(rng.normal(0, 1, (bins, items)) * there, axis=0)
        at, who = np.nonzero(there)
        similarity = Similarity(Rules(half_life=half_life), period=10)
        cut = int(rng.integers(0, len(at) + 1))
        for part in (slice(0, cut), slice(cut, None)):
            names = [f"{item:02}" for item in who[part]]
            similarity.update(Ticks.of(names, at[part] * 10, values[at[part], who[part]]))
        changes = np.diff(values, axis=0, prepend=values[:1])
        weights = np.exp2(-(at.max() - np.arange(bins)) * 10 / half_life) if half_life else np.ones(bins)
        expected = changes.T @ (changes * weights[:, None])
        np.testing.assert_allclose(similarity.value().gram, expected, atol=1e-9 * np.abs(expected).max(initial=1))

    def test_neighbours_are_the_strongest(self) -> None:
        rng = np.random.default_rng(1)
        common, own = rng.normal(0, 1, (200, 1)), rng.normal(0, 1, (200, 4))
        changes = np.hstack([common + 0.1 * own[:, :1], -common + 0.3 * own[:, 1:2], own[:, 2:]])
        values = np.cumsum(changes, axis=0)
        names = np.tile(["up", "down", "x", "y"], 200)
        similarity = Similarity(period=1)
        similarity.update(Ticks.of(names, np.repeat(np.arange(200), 4), values.reshape(-1)))
        found = similarity.value()
        places, rho = found.neighbours(2)
        assert places.shape == (4, 2)
        assert found.items[places[found.place("up"), 0]] == "down"
        assert rho[found.place("up"), 0] == found.cosine("up", "down") < -0.9
        assert np.all(np.abs(rho[:, 0]) >= np.abs(rho[:, 1]))
        assert all(place not in row for place, row in enumerate(places.tolist()))
        assert found.neighbours(99)[0].shape == (4, 3)

    def test_pieces_of_one_time_are_refused(self) -> None:
        one_half, other_half = Similarity(period=10), Similarity(period=10)
        one_half.update(one([1.0, 2.0], [0, 50], "a"))
        other_half.update(one([1.0, 2.0], [0, 50], "b"))
        with pytest.raises(StatisticsError, match="cut the history by time"):
            one_half.merge(other_half)

    def test_items_have_a_limit(self) -> None:
        similarity = Similarity(period=10, most_items=2)
        similarity.update(Ticks.of(["a", "b"], [1, 1], [1.0, 1.0]))
        similarity.update(Ticks.of(["a", "b"], [2, 2], [1.0, 1.0]))
        with pytest.raises(StatisticsError, match="most_items is 2"):
            similarity.update(Ticks.of(["a", "c"], [3, 3], [1.0, 1.0]))
        assert similarity.names == ("a", "b")

    def test_parameters_that_make_no_sense(self) -> None:
        with pytest.raises(StatisticsError, match="period"):
            Similarity(period=0)
        with pytest.raises(StatisticsError, match="most_items"):
            Similarity(period=1, most_items=0)


numbers = st.one_of(st.floats(-1e6, 1e6), st.integers(-50, 50).map(float), st.sampled_from([0.0, -1e-300, 1e100]))


class TestHistogram:
    @settings(max_examples=100, deadline=None)
    @given(st.lists(numbers, min_size=1, max_size=60), numbers, st.integers(2, 20))
    def test_the_truth_is_within_the_stated_error(self, values: list[float], point: float, cells: int) -> None:
        histogram = Histogram(cells=cells)
        histogram.update(one(values))
        found = histogram.value()["a"]
        assert found.total == len(values)
        assert len(found.edges) <= cells
        least, most = found.surely_below(point)
        truth = sum(value < point for value in values)
        assert least <= truth <= most
        assert least <= found.below(point) <= most
        holding = found.weights[(found.edges <= point) & (point < found.edges + found.width)].sum()
        assert most - least <= holding

    def test_quantiles(self) -> None:
        histogram = Histogram()
        histogram.update(one([float(n) for n in range(1000)]))
        found = histogram.value()["a"]
        assert found.quantile(0.5) == pytest.approx(500, abs=2 * found.width)
        assert found.quantile(1.0) == pytest.approx(1000, abs=2 * found.width)
        assert found.between(100.0, 200.0) == pytest.approx(100, abs=2 * found.width)
        with pytest.raises(StatisticsError):
            found.quantile(1.5)

    def test_cells_have_a_limit(self) -> None:
        for kind in (Histogram, Coverage):
            with pytest.raises(StatisticsError, match="at least 2"):
                kind(cells=1)


ends = st.integers(-20, 20).map(float)
ranges = st.lists(st.tuples(ends, ends, st.sampled_from(["", "low", "high", "both"])), min_size=1, max_size=40)


class TestCoverage:
    @settings(max_examples=100, deadline=None)
    @given(ranges, ends, st.integers(2, 60))
    def test_the_truth_is_within_the_stated_error(
        self, drawn: list[tuple[float, float, str]], point: float, cells: int
    ) -> None:
        lows = [-math.inf if open_end in ("low", "both") else min(a, b) for a, b, open_end in drawn]
        highs = [math.inf if open_end in ("high", "both") else max(a, b) for a, b, open_end in drawn]
        coverage = Coverage(cells=cells)
        coverage.update(Ranges.of(["a"] * len(drawn), range(len(drawn)), lows, highs))
        found = coverage.value()["a"]
        truth = sum(low <= point <= high for low, high in zip(lows, highs, strict=True))
        least, most = found.surely_at(point)
        assert least <= truth <= most
        assert least <= found.at(point) <= most
        assert found.total == len(drawn)
        assert found.unbounded_above == highs.count(math.inf)

    def test_ranges_that_make_no_sense(self) -> None:
        for low, high in ((2.0, 1.0), (math.nan, 1.0), (math.inf, math.inf), (-math.inf, -math.inf)):
            with pytest.raises(StatisticsError, match="lower one not above"):
                Ranges.of(["a"], [1], [low], [high])


class TestFidelity:
    def test_time_and_ticks_weigh_differently(self) -> None:
        fidelity = Fidelity(Rules(longest_gap=100))
        fidelity.update(observations(["q"] * 3, [0, 90, 100], [0.0, 7.0, 0.0], [5.0] * 3))
        fidelity.update(observations(["q"] * 2, [1000, 1010], [0.0, 0.0], [5.0] * 2))
        figures = fidelity.value()
        assert figures.by_time.tolist() == [100 / 110]
        assert figures.by_tick.tolist() == [0.8]
        assert (figures.gaps.tolist(), figures.gap_seconds.tolist()) == ([1], [900 / 1e6])

    def test_the_last_observation_holds_across_the_seam(self) -> None:
        earlier, later = Fidelity(), Fidelity()
        earlier.update(observations(["q"], [0], [9.0], [5.0]))
        assert earlier.value().by_time.tolist() == [0.0]
        later.update(observations(["q", "q"], [30, 40], [1.0, 1.0], [5.0, 5.0]))
        earlier.merge(later)
        assert earlier.value().by_time.tolist() == [0.25]

    def test_observations_are_yes_or_no(self) -> None:
        with pytest.raises(StatisticsError, match=r"1 .within the bound. or 0"):
            Fidelity().update(one([0.5]))


def test_rules_that_make_no_sense() -> None:
    for name in ("longest_gap", "half_life"):
        with pytest.raises(StatisticsError, match=name):
            Rules(**{name: 0})
