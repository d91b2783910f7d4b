"""Every promise of aggregators, in simulated worlds; and every planted bug, found."""

from collections import Counter

import pytest

from simulation.aggregator_world import run, traced
from tests.support.planted_aggregator_bugs import PLANTED, Planted

DEFAULT_SEEDS = range(50)
SLOW_SEEDS = range(500)

IN_EVERY_WORLD = {
    "QueriesResumed",
    "QueriesSuspended",
    "aggregator cut off",
    "aggregator killed",
    "subscriptionended",
    "frame",
    "heartbeat",
    "link ordered",
    "link unordered",
    "message delayed",
    "message lost",
    "node behind the log",
    "node killed",
    "partition",
    "retransmission",
    "suspended",
    "write",
}
"""Faults, and ways of aggregators, that no world is without."""
IN_MOST_WORLDS = {
    "client reconnects",
    "connection refused",
    "message repeated",
    "restart from a snapshot",
    "restart from scratch",
    "slow consumer",
}
IN_SOME_WORLDS = {
    "aggregator back to a node that is behind",
    "held back",
    "link broken",
    "node behind the client",
    "write failed",
    "write slow",
}


def check(seeds: range) -> None:
    worlds: Counter[str] = Counter()
    for seed in seeds:
        report = run(seed)
        assert report.violation is None, f"seed {seed}: {report.violation}"
        assert report.changes >= 200
        assert report.checks >= 20
        worlds.update(report.happened.keys())
    assert {kind: worlds[kind] for kind in IN_EVERY_WORLD if worlds[kind] < 0.99 * len(seeds)} == {}
    assert {kind: worlds[kind] for kind in IN_MOST_WORLDS if worlds[kind] < 0.7 * len(seeds)} == {}
    assert {kind: worlds[kind] for kind in IN_SOME_WORLDS if worlds[kind] < 0.1 * len(seeds)} == {}


def test_every_promise_is_kept() -> None:
    check(DEFAULT_SEEDS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_promise_is_kept_in_hundreds_of_worlds() -> None:
    check(SLOW_SEEDS)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_planted_bugs_are_found(planted: Planted) -> None:
    last = len(DEFAULT_SEEDS)
    found = next(
        (report for seed in DEFAULT_SEEDS if (report := run((planted.begin + seed) % last, planted.setting)).violation),
        None,
    )
    assert found is not None, f"{planted.name}: no seed up to {last} shows it"


def test_a_seed_is_one_run() -> None:
    assert list(traced(7)) == list(traced(7))
    assert list(traced(7)) != list(traced(8))


def test_a_trace_tells_what_went_wrong() -> None:
    planted = PLANTED[0]
    seed = next(seed for seed in range(planted.begin, len(DEFAULT_SEEDS)) if run(seed, planted.setting).violation)
    lines = list(traced(seed, planted.setting))
    assert "not within" in lines[-1]
    assert any("VIOLATION" in line for line in lines)
