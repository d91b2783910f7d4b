"""Statistics as a beginning: found where they should be, and refused with a sentence where not."""

from pathlib import Path

import numpy as np
import pytest

from slackwater.aggregator.configuration import Plan, plan_of, read_part
from slackwater.aggregator.learnt import read_learnt
from slackwater.core.errors import SlackwaterError
from slackwater.statistics import Statistics, Ticks

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
    assert list(pull.learnt.habits) == ["IBM"]
    assert pull.learnt.without == ("SAP",)
    assert pull.learnt.until == 1_999 * SECOND
    assert pull.learnt.habits["IBM"].variance(1.0) == pytest.approx(1.0, rel=0.2)
    assert plan(tmp_path, PULLS.replace('learnt = "statistics"', "")).pulls[0].learnt is None


def test_ticks_of_the_configuration_are_those_of_the_habits(tmp_path: Path) -> None:
    write(tmp_path / "statistics", "IBM", "SAP")
    [pull] = plan(tmp_path, PULLS + "tick = 0.5\n").pulls
    assert pull.learnt is not None
    assert pull.learnt.habits["IBM"].interval == 2.0


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
    with pytest.raises(SlackwaterError, match="tells nothing of IBM, SAP: it is about A, B and says enough of 2 items"):
        plan(tmp_path)


def test_keys_with_a_stroke_in_the_name_of_the_table(tmp_path: Path) -> None:
    write(tmp_path / "s", "IBM", table="a/b", name="a_b.price.parquet")
    assert list(read_learnt(tmp_path / "s", "a/b", "price", ["IBM"], SECOND).habits) == ["IBM"]
