"""Statistics as a beginning: found where they should be, and refused with a sentence where not."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from slackwater.aggregator.configuration import Plan, PullPlan, plan_of, read_part
from slackwater.aggregator.pull.item_statistics import read_learnt
from slackwater.aggregator.pull.service import Puller, make_scheduler
from slackwater.aggregator.upstream.connection import Here
from slackwater.core import Aggregate, AggregateFunction, Bound
from slackwater.core.errors import SlackwaterError
from slackwater.statistics import Statistics, Ticks
from slackwater.wallclock import WallClock

SECOND = 1_000_000
PULLS = """
[[pulls]]
name = "tape"
define = "CREATE TABLE trades (symbol TEXT PRIMARY KEY, price DOUBLE)"
value = "price"
url = "http://127.0.0.1:1/{key}"
keys = ["IBM", "SAP"]
learnt = "statistics"
"""


def write(folder: Path, *items: str, table: str = "trades", column: str = "price", name: str | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(1)
    statistics = Statistics(table, column)
    for item in items:
        walk = np.cumsum(random.normal(size=2_000))
        statistics.update(Ticks.of([item] * 2_000, np.arange(2_000) * SECOND, walk))
    statistics.write(folder / (name or f"{table}.{column}.parquet"))
    return folder


def plan(folder: Path, text: str = PULLS) -> Plan:
    (folder / "near.toml").write_text(text)
    return plan_of(read_part(folder / "near.toml"), "near.toml", folder)


def test_a_folder_beside_the_configuration_is_read(tmp_path: Path) -> None:
    write(tmp_path / "statistics", "IBM", "ORCL")
    [pull] = plan(tmp_path).pulls
    assert pull.learnt is not None
    assert list(pull.learnt.priors) == ["IBM"]
    assert pull.learnt.without == ("SAP",)
    assert pull.learnt.until == 1_999 * SECOND
    assert pull.learnt.priors["IBM"].variance(1.0) == pytest.approx(1.0, rel=0.2)
    assert plan(tmp_path, PULLS.replace('learnt = "statistics"', "")).pulls[0].learnt is None


def test_ticks_of_the_configuration_are_those_of_the_habits(tmp_path: Path) -> None:
    write(tmp_path / "statistics", "IBM", "SAP")
    [pull] = plan(tmp_path, PULLS + "tick = 0.5\n").pulls
    assert pull.learnt is not None
    assert pull.learnt.priors["IBM"].interval == 2.0


@pytest.mark.parametrize("newer", [False, True])
def test_what_was_learnt_here_wins_unless_the_statistics_are_newer(tmp_path: Path, newer: bool) -> None:
    pulls = plan(tmp_path, PULLS.replace('learnt = "statistics"', "")).pulls

    def puller(plans: Sequence[PullPlan]) -> Puller:
        made = Puller(cast(Here, SimpleNamespace(clock=WallClock())), plans, make_scheduler, tmp_path / "pulls")
        query = Aggregate("trades", AggregateFunction.SUM, "price", Bound(4.0, 0.9))
        made.state.register(7, query, [("IBM",), ("SAP",)])
        return made

    first = puller(pulls)
    for tick in range(300):
        for key in first.state.due(tick * SECOND):
            first.state.got(tick * SECOND, key, 50.0 * (tick % 2))
    first.save()
    write(tmp_path / "statistics", "IBM", "SAP")
    end = 1_999
    file = next((tmp_path / "pulls").iterdir())
    os.utime(file, (end - 1, end - 1) if newer else (end + 1, end + 1))
    again = puller(plan(tmp_path).pulls)
    begun = again.state.scheduler.models[0].scale[0]  # type: ignore[attr-defined]
    assert begun == pytest.approx(1.0, rel=0.2), "by statistics, until something else is known"
    again.recall()
    here = first.state.scheduler.models[0].scale[0]  # type: ignore[attr-defined]
    assert here > 100
    recalled = again.state.scheduler.models[0].scale[0]  # type: ignore[attr-defined]
    assert recalled == (begun if newer else here)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(SlackwaterError, match=r"source tape: there is no folder .*statistics .*slackwater learn TRACE"):
        plan(tmp_path)


def test_another_table_or_column(tmp_path: Path) -> None:
    write(tmp_path / "statistics", "IBM", table="quotes")
    with pytest.raises(
        SlackwaterError, match=r"no statistics of trades\.price; there are statistics of quotes\.price\."
    ):
        plan(tmp_path)
    write(tmp_path / "statistics", "IBM", column="size", name="trades.price.parquet")
    with pytest.raises(SlackwaterError, match=r"is about trades\.size, not about trades\.price"):
        plan(tmp_path)


def test_an_empty_folder_and_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "statistics").mkdir()
    with pytest.raises(SlackwaterError, match="there are none at all"):
        plan(tmp_path)
    (tmp_path / "statistics" / "trades.price.parquet").write_bytes(b"PAR1 and nothing")
    with pytest.raises(SlackwaterError, match="not a statistics file"):
        plan(tmp_path)


def test_other_keys(tmp_path: Path) -> None:
    write(tmp_path / "statistics", "A", "B")
    with pytest.raises(SlackwaterError, match="tells nothing, or too little, of IBM, SAP: it is about A, B"):
        plan(tmp_path)


def test_keys_with_a_stroke_in_the_name_of_the_table(tmp_path: Path) -> None:
    write(tmp_path / "s", "IBM", table="a/b", name="a_b.price.parquet")
    assert list(read_learnt(tmp_path / "s", "a/b", "price", ["IBM"], SECOND).priors) == ["IBM"]
