"""Generators: the same seed gives the same rows however they are cut, and the numbers have their properties.

Tolerances are several standard errors of the estimate, so that a right generator passes with any seed.
"""

from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from slackwater.core import DataType, SourceError
from slackwater.core.arrow import INSTANT
from slackwater.sources import (
    GENERATORS,
    AutoRegression,
    Generator,
    LinearTrend,
    Market,
    Noise,
    PoissonRows,
    RandomWalk,
    Stationary,
    generator,
)

Floats = npt.NDArray[np.float64]
ALL = sorted(GENERATORS)


def table(source: Generator) -> pa.Table:
    return pa.Table.from_batches([arrival.batch for arrival in source.arrivals()])


def matrix(source: Generator, items: int) -> Floats:
    """Ticks × items."""
    values: Floats = table(source).column(1).to_numpy().astype(np.float64)
    return values.reshape(-1, items)


def ipc(whole: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole.combine_chunks())
    return bytes(sink.getvalue())


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_bytes_whatever_the_cut(name: str) -> None:
    kind = generator(name)
    whole = table(kind(seed=5, ticks=1_500))
    assert ipc(whole) == ipc(table(kind(seed=5, ticks=1_500)))
    for batch_rows in (1_000, 777, 100_000):
        arrivals = list(kind(seed=5, ticks=1_500, batch_rows=batch_rows).arrivals())
        assert all(arrival.batch.num_rows == batch_rows for arrival in arrivals[:-1])
        assert pa.Table.from_batches([arrival.batch for arrival in arrivals]).equals(whole)
    assert table(kind(seed=5, ticks=100)).equals(whole.slice(0, table(kind(seed=5, ticks=100)).num_rows))
    assert not table(kind(seed=6, ticks=1_500)).equals(whole)


@pytest.mark.parametrize("name", ALL)
def test_rows_fit_the_schema_and_are_numbered_and_timed(name: str) -> None:
    source = generator(name)(seed=1, ticks=50, tick=1_000)
    whole = table(source)
    for column in source.schema.columns:
        wanted = {DataType.TEXT: pa.string(), DataType.DOUBLE: pa.float64(), DataType.BIGINT: pa.int64()}
        assert whole.schema.field(column.name).type == wanted.get(column.type, INSTANT)
    assert whole.column("$seq").to_pylist() == list(range(whole.num_rows))
    times = whole.column("at").cast(pa.int64()).to_numpy()
    assert np.all(np.diff(times) >= 0)
    assert set((times - source.start) % 1_000) == {0}
    assert times[0] >= source.start
    assert times[-1] <= source.start + 49 * 1_000
    assert source.schema.event_time == "at"


@pytest.mark.parametrize("name", ALL)
def test_names_tell_generators_seeds_and_parameters_apart(name: str) -> None:
    kind = generator(name)
    source = kind(seed=3)
    assert source.source.startswith(f"{name}:3:")
    assert replace(source, batch_rows=7, ticks=5, table="other").source == source.source
    assert replace(source, tick=7).source != source.source
    assert replace(source, seed=4).source != source.source
    assert kind(ticks=1, table="mine").schema.name == "mine"


@pytest.mark.parametrize("name", ALL)
def test_without_ticks_it_does_not_end_and_with_none_it_is_empty(name: str) -> None:
    kind = generator(name)
    assert sum(arrival.batch.num_rows for arrival in islice(kind(batch_rows=5_000).arrivals(), 6)) == 30_000
    assert list(kind(ticks=0).arrivals()) == []


def test_random_walk_has_its_drift_and_deviation() -> None:
    values = matrix(RandomWalk(seed=1, items=20, ticks=5_000, drift=0.3, sigma=2.0), 20)
    steps = np.diff(values, axis=0).ravel()
    assert abs(steps.mean() - 0.3) < 6 * 2.0 / np.sqrt(len(steps))
    assert abs(steps.std() - 2.0) < 6 * 2.0 / np.sqrt(2 * len(steps))


@pytest.mark.parametrize("phi", [0.95, 0.5, -0.6])
def test_autoregression_has_its_coefficient_mean_and_deviation(phi: float) -> None:
    source = AutoRegression(seed=2, items=10, ticks=10_000, phi=phi, constant=1.0, sigma=0.5)
    values = matrix(source, 10) - source.mean
    before, after = values[:-1].ravel(), values[1:].ravel()
    count = len(before)
    assert abs((before @ after) / (before @ before) - phi) < 6 * np.sqrt((1 - phi**2) / count)
    noise = after - phi * before
    assert abs(noise.std() - 0.5) < 6 * 0.5 / np.sqrt(2 * count)
    # The mean of a chain is as good as that of (1 − φ) / (1 + φ) times as many single values.
    assert abs(values.mean()) < 6 * source.deviation / np.sqrt(count * (1 - phi) / (1 + phi))
    spread = values.std(axis=1).mean()
    assert abs(values[:20].std() - source.deviation) < 0.5 * source.deviation, "stationary from the beginning"
    assert spread == pytest.approx(source.deviation, rel=0.2)


def test_autoregression_equals_the_recurrence() -> None:
    source = AutoRegression(seed=9, items=3, phi=0.8, constant=0.5, sigma=1.0, ticks=2_500)
    random = np.random.Generator(np.random.PCG64(9))
    value = source.mean + source.deviation * random.standard_normal(3)
    wanted = []
    for _ in range(3):
        for noise in random.standard_normal((source.block_ticks, 3)):
            value = 0.8 * value + 0.5 + noise
            wanted.append(value)
    np.testing.assert_allclose(matrix(source, 3), np.array(wanted)[:2_500], rtol=0, atol=1e-9)


@pytest.mark.parametrize("noise", list(Noise))
@pytest.mark.parametrize("integers", [False, True])
def test_trend_stays_within_its_bound(noise: Noise, integers: bool) -> None:
    source = LinearTrend(
        seed=3, items=4, ticks=4_000, speed=0.7, speed_step=0.1, lag=5, noise=noise, bound=8, integers=integers
    )
    ticks, order = np.arange(4_000)[:, None], np.arange(4)
    residue = matrix(source, 4) - (0.7 + 0.1 * order) * (ticks - 5 * order)
    rounding = 0.5 if integers else 0.0
    assert np.abs(residue).max() <= 8 + rounding + 1e-9
    assert np.abs(residue).max() > 7.5, "the bound is reached"
    expected = 8 / np.sqrt(3) if noise is Noise.UNIFORM else 5.0 * np.sqrt(_truncated_variance(8 / 5))
    deviation = np.hypot(expected, 1 / np.sqrt(12) if integers else 0)
    assert residue.std() == pytest.approx(deviation, rel=0.04)
    assert abs(residue.mean()) < 6 * deviation / np.sqrt(residue.size)
    kind = table(replace(source, ticks=1)).schema.field("value").type
    assert kind == (pa.int64() if integers else pa.float64())


def _truncated_variance(bound: float) -> float:
    """Of a standard normal within ±bound, by adding up."""
    grid = np.linspace(-bound, bound, 20_001)
    weight = np.exp(-(grid**2) / 2)
    return float((grid**2 * weight).sum() / weight.sum())


def test_stationary_discrete_and_normal() -> None:
    values = matrix(Stationary(seed=4, items=5, ticks=8_000, choices=(1.0, 2.0, 5.0), weights=(1, 2, 1)), 5).ravel()
    for choice, share in ((1.0, 0.25), (2.0, 0.5), (5.0, 0.25)):
        assert abs((values == choice).mean() - share) < 6 * np.sqrt(share * (1 - share) / len(values))
    assert set(values) == {1.0, 2.0, 5.0}
    values = matrix(Stationary(seed=4, items=5, ticks=8_000, mean=3.0, sigma=2.0), 5)
    assert abs(values.mean() - 3) < 6 * 2 / np.sqrt(values.size)
    assert abs(values.std() - 2) < 6 * 2 / np.sqrt(2 * values.size)
    lagged = np.corrcoef(values[:-1].ravel(), values[1:].ravel())[0, 1]
    assert abs(lagged) < 6 / np.sqrt(values.size)


def test_market_is_correlated_by_sector() -> None:
    # Rounding to cents is noise of its own: dear shares and large steps make it small.
    source = Market(
        seed=5, items=8, sectors=2, ticks=20_000, volatility=0.002, burst_chance=0, cheapest=1e5, dearest=1e6
    )
    steps = np.diff(np.log(matrix(source, 8)), axis=0)
    correlation = np.corrcoef(steps.T)
    same = np.arange(8)[:, None] % 2 == np.arange(8) % 2
    beta, gamma = source.market_weight**2, source.sector_weight**2
    apart = ~np.eye(8, dtype=bool)
    assert np.abs(correlation[same & apart] - (beta + gamma)).max() < 6 / np.sqrt(20_000)
    assert np.abs(correlation[~same] - beta).max() < 6 / np.sqrt(20_000)
    assert steps.std() == pytest.approx(0.002, rel=0.03)


def test_market_has_bursts_and_cents() -> None:
    source = Market(seed=6, items=30, ticks=30_000, cheapest=1e5, dearest=1e6)
    values = matrix(source, 30)
    spread = np.diff(np.log(values), axis=0).std(axis=1)
    wild = spread > 3 * source.volatility
    expected = 1 - (1 - source.burst_chance) ** source.burst_ticks
    assert wild.mean() == pytest.approx(expected, abs=0.1)
    # Bursts last: a wild tick is followed by another, nearly always.
    assert wild[1:][wild[:-1]].mean() > 0.9
    assert np.median(spread[wild]) / np.median(spread[~wild]) == pytest.approx(source.burst_factor, rel=0.15)
    cheap = matrix(Market(seed=6, ticks=20_000, cheapest=0.01, dearest=1.0, volatility=0.05), 20)
    assert cheap.min() >= 0.01
    np.testing.assert_array_equal(cheap, np.round(cheap, 2))


def test_poisson_rows_have_their_rates() -> None:
    ticks = 4_000
    source = PoissonRows(seed=7, ticks=ticks, population=500, inserts=4, updates=9, deletes=4, table="t")
    whole = table(source)
    operations, keys = whole.column("$op").to_numpy(), whole.column("id").to_numpy()
    first = np.zeros(len(keys), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    deletes = int((operations == 1).sum())
    inserts = int((first & (operations == 0)).sum()) - 500
    updates = len(keys) - deletes - inserts - 500
    for count, rate in ((inserts, 4), (updates, 9), (deletes, 4)):
        assert abs(count - rate * ticks) < 6 * np.sqrt(rate * ticks)


@pytest.mark.parametrize("rates", [(5.0, 20.0, 5.0), (0.5, 3.0, 4.0), (2.0, 0.0, 50.0)])
def test_only_live_rows_are_changed_or_deleted(rates: tuple[float, float, float]) -> None:
    inserts, updates, deletes = rates
    source = PoissonRows(seed=8, ticks=600, population=40, inserts=inserts, updates=updates, deletes=deletes)
    live: set[int] = set()
    ever: set[int] = set()
    touched: set[tuple[object, int]] = set()
    for row in table(source).to_pylist():
        assert (row["at"], row["id"]) not in touched, "once a tick"
        touched.add((row["at"], row["id"]))
        if row["$op"] == 1:
            assert row["id"] in live
            assert row["a0"] is None
            live.remove(row["id"])
        else:
            assert row["id"] in live or row["id"] not in ever
            assert row["a0"] is not None
            live.add(row["id"])
            ever.add(row["id"])


def test_hotspots_are_crowded() -> None:
    source = PoissonRows(seed=9, ticks=2_000, hotspots=3, hot=0.6, spread=5.0, deletes=0.0)
    whole = table(source)
    points = np.stack([whole.column(f"a{index}").to_numpy() for index in range(3)], axis=1)
    distance = np.linalg.norm(points[:, None, :] - source.centres()[None], axis=2)
    near = distance < 6 * 5.0
    share = near.any(axis=1).mean()
    assert abs(share - 0.6) < 0.02, "a ball of radius 30 holds next to nothing of the cube by chance"
    # The k-th hotspot has weight 1/k.
    counts = near.sum(axis=0)
    np.testing.assert_allclose(counts / counts.sum(), np.array([6, 3, 2]) / 11, atol=0.02)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Market(items=0),
        lambda: Market(market_weight=0.9, sector_weight=0.9),
        lambda: Market(burst_chance=2),
        lambda: Market(cheapest=0),
        lambda: RandomWalk(sigma=-1),
        lambda: AutoRegression(phi=1.0),
        lambda: LinearTrend(sigma=100, bound=1),
        lambda: Stationary(choices=(1.0,), weights=(1.0, 2.0)),
        lambda: Stationary(choices=(1.0,), weights=(0.0,)),
        lambda: PoissonRows(hot=2),
        lambda: PoissonRows(inserts=-1),
        lambda: RandomWalk(seed=-1),
        lambda: RandomWalk(batch_rows=0),
        lambda: RandomWalk(ticks=-1),
        lambda: generator("nope"),
    ],
)
def test_parameters_that_make_no_sense(make: object) -> None:
    assert callable(make)
    with pytest.raises(SourceError):
        make()
