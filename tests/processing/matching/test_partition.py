"""Stabbing partitions and hotspots: every invariant after every change, and the greedy partition against all others."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from slackwater.kernels.stabbing_groups import greedy_groups, greedy_plainly
from slackwater.processing.matching.hotspots import SCATTERED, HotspotTracker
from slackwater.processing.matching.partition import LazyPartition, RefinedPartition

Ranges = tuple[np.ndarray, np.ndarray]


def drawn(rng: np.random.Generator, count: int, width: float = 10.0) -> Ranges:
    low = np.round(rng.uniform(0, 100, count), 1)
    return low, low + np.round(rng.exponential(width, count), 1)


@pytest.mark.parametrize("seed", range(10))
def test_greedy_is_optimal(seed: int) -> None:
    """No smaller set of points stabs all ranges; it is enough to try right ends as points."""
    low, high = drawn(np.random.default_rng(seed), 9, width=20)
    groups = greedy_plainly(list(zip(low.tolist(), high.tolist(), strict=True)))
    for points in combinations(high.tolist(), len(groups) - 1):
        assert not all(any(a <= p <= b for p in points) for a, b in zip(low, high, strict=True))
    by = np.argsort(low, kind="stable")
    out = np.empty(len(low), np.int64)
    assert greedy_groups(low[by], high[by], out) == len(groups)
    assert [sorted(by[out == k].tolist()) for k in range(len(groups))] == [sorted(group) for group in groups]


PARTITIONS: dict[str, Callable[[], LazyPartition]] = {
    "lazy": LazyPartition,
    "lazy, strict": lambda: LazyPartition(strict=True),
    "lazy, close": lambda: LazyPartition(epsilon=0.1),
    "refined": RefinedPartition,
    "refined, close": lambda: RefinedPartition(epsilon=0.05),
}


@pytest.mark.parametrize("make", PARTITIONS.values(), ids=PARTITIONS.keys())
@pytest.mark.parametrize("seed", range(4))
def test_a_partition_is_never_far_from_the_fewest_groups(make: Callable[[], LazyPartition], seed: int) -> None:
    rng, partition, there, ever = np.random.default_rng(seed), make(), list[int](), 0
    for step in range(60):
        count = int(rng.integers(1, 8 if step % 30 < 15 else 2))
        new = np.arange(ever, ever + count)
        partition.add(new, *drawn(rng, count))
        ever += count
        there += new.tolist()
        partition.settle()
        partition._check()
        rng.shuffle(there)
        gone = [there.pop() for _ in range(min(len(there), int(rng.integers(0, 4 if step % 30 < 15 else 9))))]
        partition.remove(np.array(gone, np.int64))
        partition.settle()
        partition._check()
    assert partition.restarts > 0


def test_the_refined_partition_starts_over_less_often() -> None:
    lazy, refined = LazyPartition(), RefinedPartition()
    rng = np.random.default_rng(1)
    low = np.repeat(np.arange(10) * 100.0, 50) + rng.uniform(0, 10, 500)
    high = low + rng.uniform(20, 30, 500)
    for partition in (lazy, refined):
        partition.add(np.arange(500), low, high)
        partition.settle()
        for k in range(200):
            partition.remove(np.array([k * 2]))
            partition.settle()
    assert refined.fewest() == len(refined.groups) == 10
    assert refined.restarts < lazy.restarts


def history(tracker: HotspotTracker, seed: int, steps: int, most: int) -> None:
    """Interests that move: ranges gather around a few centres, which change as time goes by."""
    rng, there, ever = np.random.default_rng(seed), list[int](), 0
    places = dict[int, int]()
    for step in range(steps):
        centres = 100.0 * ((np.arange(5) * 7 + step // 12) % 23)
        count = int(rng.integers(1, most))
        middle = np.where(rng.random(count) < 0.7, rng.choice(centres, count), rng.uniform(0, 2300, count))
        low, high = middle - rng.exponential(8, count), middle + rng.exponential(8, count)
        new = np.arange(ever, ever + count)
        tracker.add(new, low, high)
        places.update(dict.fromkeys(new.tolist(), SCATTERED))
        places.update(zip(new.tolist(), tracker.group_of(new).tolist(), strict=True))
        ever += count
        there += new.tolist()
        rng.shuffle(there)
        gone = [there.pop() for _ in range(min(len(there), int(rng.integers(0, most if len(there) > 9 * most else 2))))]
        tracker.remove(np.array(gone, np.int64))
        for slot in gone:
            del places[slot]
        for move in tracker.settle():
            for slot in move.slots.tolist():
                assert places[slot] == move.old
                places[slot] = move.new
        tracker._check()
        present = np.array(sorted(places), np.int64)
        assert tracker.group_of(present).tolist() == [places[slot] for slot in present.tolist()]
    assert tracker.moves > 0


@pytest.mark.parametrize(("alpha", "most"), [(0.05, 2), (0.1, 6), (0.02, 20), (0.5, 5)])
def test_the_invariants_of_hotspots_hold_at_every_step(alpha: float, most: int) -> None:
    history(HotspotTracker(alpha, epsilon=0.5), seed=1, steps=150, most=most)


def test_the_invariants_hold_where_hotspots_have_a_least_size() -> None:
    tracker = HotspotTracker(0.02, epsilon=0.5, least=4)
    history(tracker, seed=1, steps=150, most=20)
    assert tracker.hot_size == 4, "the least size was not what counts"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_invariants_of_hotspots_hold_for_long(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tracker = HotspotTracker(float(rng.choice([0.2, 0.05, 0.01, 0.005])), float(rng.choice([0.1, 0.5, 3])))
    history(tracker, seed, steps=800, most=int(rng.choice([2, 10, 60])))
