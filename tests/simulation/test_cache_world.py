"""Every answer of every cache, in simulated worlds that go wrong; and every planted bug, found."""

from collections import Counter

import pytest

from simulation.cache_world import run
from tests.support.planted_bugs import Planted
from tests.support.planted_cache_bugs import PLANTED

DEFAULT_SEEDS = range(40)
SLOW_SEEDS = range(500)
PLANTED_SEEDS = 120

IN_EVERY_WORLD = {
    "answered at home",
    "answered by a node",
    "answered by both",
    "append",
    "failover",
    "found before",
    "frame",
    "heartbeat",
    "labels",
    "link ordered",
    "link unordered",
    "message delayed",
    "message lost",
    "partition",
    "question asked",
    "restart from a snapshot",
    "restart from scratch",
    "retransmission",
    "under a new plan",
}
"""Faults, and ways of the protocol, that hardly any world is without."""


def check(seeds: range) -> None:
    worlds: Counter[str] = Counter()
    for seed in seeds:
        report = run(seed)
        assert report.violation is None, f"seed {seed}: {report.violation}"
        assert report.checks >= 200
        worlds.update(report.happened.keys())
    assert {kind: worlds[kind] for kind in IN_EVERY_WORLD if worlds[kind] < 0.95 * len(seeds)} == {}


def test_every_answer_is_right() -> None:
    check(DEFAULT_SEEDS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_answer_is_right_in_hundreds_of_worlds() -> None:
    check(SLOW_SEEDS)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_planted_bugs_are_found(planted: Planted) -> None:
    seeds = ((planted.begin + seed) % PLANTED_SEEDS for seed in range(PLANTED_SEEDS))
    found = next((seed for seed in seeds if run(seed, planted.setting).violation), None)
    assert found is not None, f"{planted.name}: no seed up to {PLANTED_SEEDS} shows it"


def test_a_seed_is_one_run() -> None:
    traces: list[list[str]] = [[], [], []]
    for trace, seed in zip(traces, (7, 7, 8), strict=True):
        run(seed, trace=trace)
    assert traces[0] == traces[1] != traces[2]
