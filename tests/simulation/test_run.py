"""Every promise, in hundreds of simulated worlds; and every planted bug, found."""

from collections import Counter

import pytest

from simulation.run import Report, run, traced
from simulation.workload import LabEngine
from simulation.world import Setting
from tests.support.planted_bugs import PLANTED, Planted

DEFAULT_SEEDS = range(200)
SLOW_SEEDS = range(1_000)

IN_EVERY_WORLD = {
    "append",
    "failover",
    "frame",
    "heartbeat",
    "link ordered",
    "link unordered",
    "message delayed",
    "message lost",
    "node behind the log",
    "partition",
    "replan",
    "restart from a snapshot",
    "restart from scratch",
    "retransmission",
    "unsubscribe",
}
"""Faults, and ways of the protocol, that no world is without."""
IN_MOST_WORLDS = {
    "append lost",
    "client reconnects",
    "held back",
    "late plan",
    "message into a partition",
    "message repeated",
    "message reordered",
    "named query dropped",
    "slow consumer",
    "snapshot in place of a backlog",
    "suspended",
    "under a new plan",
}
IN_SOME_WORLDS = {
    "connection refused",
    "subscriptionended",
    "link broken",
    "message of an earlier connection",
    "node behind the client",
    "replan of rows",
    "resumed without a snapshot",
    "tick",
    "wall clock set ahead",
    "wall clock set back",
}


def check(seeds: range) -> None:
    worlds: Counter[str] = Counter()
    for seed in seeds:
        report = run(seed)
        assert report.violation is None, f"seed {seed}: {report.violation}"
        assert report.changes >= 200
        assert report.checks >= 100
        worlds.update(report.happened.keys())
    assert set(worlds) >= IN_EVERY_WORLD | IN_MOST_WORLDS | IN_SOME_WORLDS
    assert {kind: worlds[kind] for kind in IN_EVERY_WORLD if worlds[kind] < 0.99 * len(seeds)} == {}
    assert {kind: worlds[kind] for kind in IN_MOST_WORLDS if worlds[kind] < 0.8 * len(seeds)} == {}
    assert {kind: worlds[kind] for kind in IN_SOME_WORLDS if worlds[kind] < 0.2 * len(seeds)} == {}


def test_every_promise_is_kept() -> None:
    check(DEFAULT_SEEDS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_promise_is_kept_in_hundreds_of_worlds() -> None:
    check(SLOW_SEEDS)


def test_worlds_are_of_the_size_that_is_told() -> None:
    setting = Setting()
    assert setting.nodes >= 3
    assert setting.clients >= 5
    assert setting.changes >= 200


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
    lines = list(traced(0, PLANTED[0].setting))
    assert "is not within" in lines[-1]
    assert any("VIOLATION" in line for line in lines)


def test_larger_worlds_keep_their_promises_too() -> None:
    setting = Setting(nodes=5, clients=12, changes=400, engine=LabEngine)
    report: Report = run(1, setting)
    assert report.violation is None
