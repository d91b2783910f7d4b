"""From a trace to fewer pulls: statistics learnt on Spark are what a scheduler begins with."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from slackwater.aggregator.pull.forecast import explain_forecast, priced
from slackwater.aggregator.pull.item_statistics import read_learnt
from slackwater.aggregator.pull.pull_state import PulledState
from slackwater.core import Aggregate, AggregateFunction, Bound, Column, DataType, Instant, TableSchema
from slackwater.core.arrow import INSTANT
from slackwater.pipeline.jobs.learn import Course, learn_files
from slackwater.planning.pulling import Uncertainty
from slackwater.sources import read_as

SECOND = 1_000_000
NOW = Instant(1_800_000_000_000_000)
KEYS = ["IBM", "MSFT", "SAP"]
TABLE = TableSchema(
    "trades",
    (
        Column("symbol", DataType.TEXT, nullable=False),
        Column("price", DataType.DOUBLE),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("symbol",),
    event_time="at",
)
BEFORE, WARM_UP = 3_000, 300
QUERY = Aggregate("trades", AggregateFunction.SUM, "price", Bound(4.0, 0.95))


def walks() -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    steps = np.random.default_rng(8).normal(size=(BEFORE + WARM_UP, len(KEYS))) * [0.2, 0.5, 0.1]
    return 100.0 + np.cumsum(steps, axis=0)


def state() -> PulledState:
    return PulledState("trades", KEYS, Uncertainty(len(KEYS)), SECOND)


def run(state: PulledState) -> tuple[int, float]:
    """Pulls and fidelity of the first ticks after the trace."""
    truth, held, right = walks()[BEFORE:], dict.fromkeys(KEYS, 0.0), 0
    for tick in range(WARM_UP):
        while due := state.due(tick * SECOND):
            for key in due:
                held[key] = float(truth[tick, KEYS.index(key)])
                state.got(tick * SECOND, key, held[key])
        right += abs(sum(held.values()) - float(truth[tick].sum())) <= 0.75 * QUERY.bound.within
    return state.pulls.items, right / WARM_UP


def test_what_spark_learnt_is_what_the_scheduler_begins_with(spark: SparkSession, tmp_path: Path) -> None:
    times = np.repeat(np.arange(BEFORE) * SECOND, len(KEYS))
    rows = pa.table(
        {
            "symbol": pa.array(KEYS * BEFORE),
            "price": pa.array(walks()[:BEFORE].ravel()),
            "at": pa.array(times).cast(INSTANT),
        }
    )
    parquet.write_table(rows, tmp_path / "trades.parquet", row_group_size=2_000)
    course = Course(TABLE, ("price",), longest_gap=20 * SECOND, period=SECOND)
    learnt = learn_files([read_as(tmp_path / "trades.parquet", TABLE)], course, spark, NOW)
    (tmp_path / "statistics").mkdir()
    learnt.statistics["price"].write(tmp_path / "statistics" / "trades.price.parquet")
    found = read_learnt(tmp_path / "statistics", "trades", "price", KEYS, SECOND)
    assert found.priors["MSFT"].variance(1.0) == pytest.approx(0.25, rel=0.1)

    keys = [(key,) for key in KEYS]
    fresh, informed = state(), state()
    informed.begin(found.priors)
    for one in (fresh, informed):
        one.register(1, QUERY, keys)
        trial = one.trial(QUERY, keys)
        assert trial is not None
        told = explain_forecast(trial)
        if one is fresh:
            assert "IBM was pulled 0 times" in told.text()
            assert priced(trial) is None
        else:
            assert told.grid is not None
            predicted = told.grid.figures[2][1]
            price = priced(trial)
            assert price is not None
            one.begin_price(1, price)
    pulls, fidelity = run(fresh)
    fewer, kept = run(informed)
    assert fewer < 0.9 * pulls
    assert kept >= min(fidelity, QUERY.bound.fidelity) - 0.01
    assert predicted == pytest.approx(fewer * 3600 / WARM_UP, rel=0.35)
