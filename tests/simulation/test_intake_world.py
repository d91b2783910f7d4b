"""Every promise of the intake, in simulated worlds; and every planted bug, found."""

from collections import Counter

import pytest

from simulation.intake_world import run, traced
from tests.support.planted_intake_bugs import PLANTED, Planted

DEFAULT_SEEDS = range(20)
SLOW_SEEDS = range(1000)
PLANTED_SEEDS = range(300)

IN_MOST_WORLDS = {
    "day passed",
    "died",
    "died in an append",
    "memory lost",
    "message lost",
    "message repeated",
    "outside the window",
    "repeat",
    "request repeated",
    "wall clock set",
}
IN_SOME_WORLDS = {
    "key used again",
    "key of another request",
    "restored with the copy's memory",
    "restored with the present memory",
    "restored with no memory",
}


def check(seeds: range) -> None:
    worlds: Counter[str] = Counter()
    for seed in seeds:
        report = run(seed)
        assert report.violation is None, f"seed {seed}: {report.violation}"
        assert report.checks > 50
        worlds.update(kind for kind, times in report.happened.items() if times)
    assert {kind: worlds[kind] for kind in IN_MOST_WORLDS if worlds[kind] < 0.8 * len(seeds)} == {}
    assert {kind: worlds[kind] for kind in IN_SOME_WORLDS if worlds[kind] < 0.1 * len(seeds)} == {}


def test_every_promise_is_kept() -> None:
    check(DEFAULT_SEEDS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_promise_is_kept_in_many_worlds() -> None:
    check(SLOW_SEEDS)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_planted_bugs_are_found(planted: Planted) -> None:
    seeds = ((planted.begin + seed) % len(PLANTED_SEEDS) for seed in PLANTED_SEEDS)
    found = next((seed for seed in seeds if run(seed, planted.setting).violation), None)
    assert found is not None, f"{planted.name}: no seed of {PLANTED_SEEDS} shows it"


def test_a_seed_is_one_run() -> None:
    assert list(traced(7)) == list(traced(7))
