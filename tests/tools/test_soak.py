"""The soak takes turns until its time is over, says what it covered, and fails on a violation with what repeats it."""

from itertools import count
from pathlib import Path

import pytest

from simulation import run as session_world
from tests.support.planted_bugs import PLANTED
from tools import soak as tool
from tools.soak import Outcome, all_parts, soak


def sound(seed: int, folder: Path) -> Outcome:
    assert folder.is_dir()
    return Outcome(3, 2)


def fails_at(bad: int) -> tool.Part:
    def part(seed: int, folder: Path) -> Outcome:
        assert seed != bad, "a promise"
        return Outcome(1)

    return part


def test_parts_take_turns_until_the_time_is_over() -> None:
    ticks = count()
    result = soak({"a": sound, "b": sound}, 40.0, 7, lambda: float(next(ticks)))
    a, b = result.parts["a"], result.parts["b"]
    assert 2 <= b.seeds <= a.seeds <= b.seeds + 1
    assert (a.checks, a.kills) == (3 * a.seeds, 2 * a.seeds)
    assert "0 violations" in result.text()
    assert f"7…{6 + a.seeds}" in result.text()


def test_every_part_gets_a_turn_however_short_the_time() -> None:
    assert {one.seeds for one in soak({"a": sound, "b": sound}, 0.0, 1).parts.values()} == {1}


def test_a_violation_names_the_part_and_the_seed_and_the_others_go_on() -> None:
    ticks = count()
    result = soak({"good": sound, "bad": fails_at(12)}, 60.0, 10, lambda: float(next(ticks)))
    [violation] = result.violations
    assert (violation.part, violation.seed) == ("bad", 12)
    assert "AssertionError: a promise (test_soak.py:" in violation.text
    assert result.parts["bad"].seeds == 3
    assert result.parts["good"].seeds > 3
    assert "VIOLATION in bad, seed 12" in result.text()


def test_the_exit_code_says_whether_anything_was_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "all_parts", lambda: {"good": sound, "bad": fails_at(5)})
    assert tool.main(["--seconds", "0", "--seed", "4"]) == 0
    assert tool.main(["--seconds", "0", "--seed", "5"]) == 1
    assert tool.main(["--seconds", "0", "--seed", "5", "--part", "good"]) == 0
    assert capsys.readouterr().out.count("VIOLATION") == 1
    with pytest.raises(SystemExit):
        tool.main(["--part", "other"])


def test_a_planted_bug_is_found() -> None:
    planted = PLANTED[0]

    def part(seed: int, folder: Path) -> Outcome:
        report = session_world.run(seed, planted.setting)
        return Outcome(report.checks, 0, report.violation)

    ticks = count()
    assert soak({"planted": part}, 300.0, planted.begin, lambda: float(next(ticks))).violations


WITH_SPARK_AND_SERVERS = {"restores"}
KILLING = {"log kills", "restores"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.slow if one in WITH_SPARK_AND_SERVERS else ()) for one in all_parts()],
)
def test_each_part_covers_something_and_finds_nothing(name: str) -> None:
    result = soak({name: all_parts()[name]}, 0.0, 3)
    assert result.violations == []
    assert result.parts[name].checks > 0
    assert (result.parts[name].kills > 0) == (name in KILLING)
