"""Statistics learnt on Spark are those of a single process, whatever the order of the rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from slackwater.core import Column, DataType, Instant, TableSchema
from slackwater.core.arrow import INSTANT
from slackwater.pipeline.jobs import file_parts as parts
from slackwater.pipeline.jobs.learn import Course, LearntStatistics, Lesson, learn_files, learn_history, usual_interval
from slackwater.pipeline.jobs.load import load
from slackwater.pipeline.jobs.picture import draw
from slackwater.pipeline.tables.frames import history_frame
from slackwater.sources import Reading, read_as
from slackwater.statistics import Rules, Statistics, Ticks

NOW = Instant(1_800_000_000_000_000)
SECOND = 1_000_000
ITEMS, TICKS = 12, 3_000
TABLE = TableSchema(
    "t",
    (
        Column("k", DataType.TEXT, nullable=False),
        Column("v", DataType.DOUBLE),
        Column("n", DataType.BIGINT),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("k",),
    event_time="at",
)
COURSE = Course(TABLE, ("v", "n"), longest_gap=60 * SECOND, period=SECOND)


def trace() -> pa.Table:
    """Walks that tick once a second, with nulls and a night in the middle."""
    random = np.random.default_rng(5)
    walks = np.cumsum(random.normal(size=(TICKS, ITEMS)), axis=0)
    times = 1_700_000_000 * SECOND + np.arange(TICKS) * SECOND
    times[TICKS // 2 :] += 3600 * SECOND
    values = [None if place % 17 == 0 else value for place, value in enumerate(walks.ravel().tolist())]
    return pa.table(
        {
            "k": pa.array([f"i{k}" for k in range(ITEMS)] * TICKS),
            "v": pa.array(values, pa.float64()),
            "n": pa.array(np.round(walks.ravel() * 10).astype(np.int64)),
            "at": pa.array(np.repeat(times, ITEMS)).cast(INSTANT),
        }
    )


def reading(rows: pa.Table, path: Path) -> Reading:
    parquet.write_table(rows, path, row_group_size=5_000)
    return read_as(path, TABLE)


def reference(rows: pa.Table, column: str) -> Statistics:
    statistics = Statistics("t", column, Rules(COURSE.longest_gap, None), period=COURSE.period)
    statistics.update(Ticks.of(rows.column("k"), rows.column("at"), rows.column(column)))
    return statistics


def assert_same(learnt: LearntStatistics, rows: pa.Table) -> None:
    assert learnt.rows == rows.num_rows
    for column, statistics in learnt.statistics.items():
        found, expected = statistics.value(), reference(rows, column).value()
        assert found.items == expected.items
        for name in ("ticks", "changes", "gaps", "first_time", "last_time"):
            np.testing.assert_array_equal(getattr(found.movement, name), getattr(expected.movement, name))
        for name in ("sumdiff", "drift", "square", "largest", "elapsed", "gap_sumdiff"):
            np.testing.assert_allclose(getattr(found.movement, name), getattr(expected.movement, name), rtol=1e-9)
        for name in ("mean", "variance", "coefficient", "autocorrelation"):
            np.testing.assert_allclose(getattr(found.moments, name), getattr(expected.moments, name), rtol=1e-9)
        assert found.similarity is not None
        assert expected.similarity is not None
        np.testing.assert_allclose(found.similarity.gram, expected.similarity.gram, rtol=1e-9, atol=1e-9)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pieces from a small file."""
    monkeypatch.setattr(parts, "PART_ROWS", 5_000)


def test_in_file_order_no_row_moves(spark: SparkSession, tmp_path: Path) -> None:
    rows, lessons = trace(), list[Lesson]()
    learnt = learn_files([reading(rows, tmp_path / "t.parquet")], COURSE, spark, NOW, lessons.append)
    assert not learnt.sorted_by_time
    assert [lesson.pieces for lesson in lessons] == list(range(1, lessons[0].total + 1))
    assert lessons[0].total > 5
    assert_same(learnt, rows)


def test_a_shuffled_file_is_dealt_out_by_time(spark: SparkSession, tmp_path: Path) -> None:
    rows = trace()
    shuffled = rows.take(pa.array(np.random.default_rng(3).permutation(rows.num_rows)))
    learnt = learn_files([reading(shuffled, tmp_path / "t.parquet")], COURSE, spark, NOW)
    assert learnt.sorted_by_time
    assert_same(learnt, rows)


def test_history_gives_the_same(spark: SparkSession, tmp_path: Path) -> None:
    rows = trace()
    load([reading(rows, tmp_path / "t.parquet")], tmp_path / "kept", spark, NOW)
    learnt = learn_history(history_frame(spark, tmp_path / "kept", "t"), COURSE)
    assert_same(learnt, rows)


def test_the_usual_interval_is_that_of_an_item(tmp_path: Path) -> None:
    assert usual_interval(reading(trace(), tmp_path / "t.parquet"), NOW) == SECOND


def test_a_picture_is_the_same_every_time(tmp_path: Path) -> None:
    statistics = reference(trace(), "v")
    for name in ("a.svg", "b.svg"):
        draw(statistics, tmp_path / name)
    first = (tmp_path / "a.svg").read_text()
    assert first == (tmp_path / "b.svg").read_text()
    assert "what moves together" in first
