"""The statistics file: what is written is read, by us and by others."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.core import StatisticsError, disk
from slackwater.statistics import Rules, Statistics, Ticks

SECOND = 1_000_000


def ticks(start: int, count: int, items: int = 5, seed: int = 1) -> Ticks:
    rng = np.random.default_rng(seed)
    values = 100 + np.cumsum(rng.normal(0, 1, (start + count, items)), axis=0)[start:]
    names = np.tile([f"S{item}" for item in range(items)], count)
    return Ticks.of(names, np.repeat(np.arange(start, start + count) * SECOND, items), values.reshape(-1))


def learnt(*batches: Ticks, period: int | None = SECOND) -> Statistics:
    rules = Rules(longest_gap=3600 * SECOND, half_life=60 * SECOND)
    statistics = Statistics("quotes", "price", rules, period=period, lags=2, tick=SECOND, cells=64)
    for batch in batches:
        statistics.update(batch)
    return statistics


@pytest.mark.parametrize("period", [None, SECOND])
def test_what_is_written_is_read_and_can_go_on(tmp_path: Path, period: int | None) -> None:
    statistics = learnt(ticks(0, 50), period=period)
    statistics.write(tmp_path / "s.parquet")
    again = Statistics.read(tmp_path / "s.parquet")
    assert again.to_bytes() == statistics.to_bytes()
    assert (again.table, again.column, again.span()) == ("quotes", "price", (0, 49 * SECOND))
    for each in (statistics, again):
        each.update(ticks(50, 30))
    assert again.to_bytes() == statistics.to_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["s.parquet"]


def test_anything_that_reads_parquet_finds_the_figures(tmp_path: Path) -> None:
    statistics = learnt(ticks(0, 50))
    statistics.write(tmp_path / "s.parquet")
    table = pq.read_table(tmp_path / "s.parquet")
    figures = statistics.value()
    assert table.column("item").to_pylist() == list(figures.items)
    assert table.column("figures.sumdiff").to_pylist() == figures.movement.sumdiff.tolist()
    assert table.column("figures.ar1_coefficient").to_pylist() == figures.moments.coefficient.tolist()
    note = json.loads(table.schema.metadata[b"slackwater"])
    assert (note["kind"], note["version"], note["table"], note["items"]) == ("statistics", 1, "quotes", 5)
    assert note["parameters"]["half_life"] == 60 * SECOND
    assert figures.similarity is not None
    nearest = table.column("figures.neighbours")[0].as_py()
    assert len(nearest) == 4
    assert nearest[0]["rho"] == figures.similarity.cosine("S0", nearest[0]["item"])


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    learnt().write(tmp_path / "s.parquet")
    assert Statistics.read(tmp_path / "s.parquet").value().items == ()


def test_files_that_are_not_ours(tmp_path: Path) -> None:
    with pytest.raises(StatisticsError, match="slackwater learn"):
        Statistics.read(tmp_path / "absent.parquet")
    path = tmp_path / "s.parquet"
    path.write_bytes(b"PAR1 rubbish")
    with pytest.raises(StatisticsError, match="not a statistics file"):
        Statistics.read(path)
    pq.write_table(pa.table({"item": ["a"]}), path)
    with pytest.raises(StatisticsError, match="no note"):
        Statistics.read(path)
    statistics = learnt(ticks(0, 5))
    statistics.write(path)
    table = pq.read_table(path)
    note = table.schema.metadata[b"slackwater"]
    pq.write_table(table.replace_schema_metadata({b"slackwater": note.replace(b'"version":1', b'"version":2')}), path)
    with pytest.raises(StatisticsError, match="version 2"):
        Statistics.read(path)
    pq.write_table(table.drop_columns(["movement.sumdiff"]), path)
    with pytest.raises(StatisticsError, match=r"sumdiff"):
        Statistics.read(path)
    pq.write_table(table.drop_columns(["markov.level"]), path)
    with pytest.raises(StatisticsError):
        Statistics.read(path)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StatisticsError, match="cannot be written"):
        learnt().write(tmp_path / "absent" / "s.parquet")


def test_a_refusing_disk_leaves_the_statistics_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, before = tmp_path / "s.parquet", learnt(ticks(0, 50))
    before.write(path)

    def refuse(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(disk, "sync", refuse)
    with pytest.raises(StatisticsError, match=r"s\.parquet: the disk is full"):
        learnt(ticks(0, 60)).write(path)
    assert Statistics.read(path).to_bytes() == before.to_bytes()
    assert [one.name for one in tmp_path.iterdir()] == ["s.parquet"]


def test_pieces_by_item_can_be_put_together_without_pairs() -> None:
    """A worker that has all ticks of some items, and no similarity to keep, may hand in its items at any time."""
    whole = learnt(ticks(0, 50), period=None)
    everything = ticks(0, 50)
    parts = []
    for g, name in enumerate(everything.names):
        own = slice(everything.starts[g], everything.starts[g + 1])
        parts.append(learnt(Ticks.of([name] * 50, everything.times[own], everything.values[own]), period=None))
    parts[3].merge(parts[1])
    for part in (parts[4], parts[0], parts[2]):
        parts[3].merge(part)
    assert parts[3].to_bytes() == whole.to_bytes()
