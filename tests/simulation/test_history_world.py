"""Worlds that are restored from copies: every promise kept, every kind of fault met, every planted bug found."""

from collections import Counter

import pytest

from simulation.history_world import run
from tests.support.planted_history_bugs import PLANTED, Planted

MET = (
    "restored",
    "restored without its store",
    "history replaced under a follower",
    "incarnation begun under a follower",
)


def worlds(begin: int, end: int) -> Counter[str]:
    happened: Counter[str] = Counter()
    for seed in range(begin, end):
        report = run(seed)
        assert report.violation is None, f"seed {seed}, {report.violation}"
        happened += report.happened
    return happened


def test_what_is_shown_is_true_in_the_history_that_it_names() -> None:
    happened = worlds(0, 25)
    assert all(happened[kind] >= 5 for kind in MET), happened


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_hundreds_of_worlds(part: int) -> None:
    worlds(1_000 + 125 * part, 1_000 + 125 * (part + 1))


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_planted_bugs_are_found(planted: Planted) -> None:
    assert any(run(seed, planted.setting).violation is not None for seed in range(200))
