"""Statistics of a real trace against plain NumPy over the wide table."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.statistics import Rules, Statistics, Ticks, combine

FOLDER = Path(__file__).parents[2].parent / "shared" / "data"
PATH = FOLDER / "stocks_1min_close_98sym.parquet"
pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not PATH.is_file(), reason="the folder of traces is not beside the checkout"),
]
MINUTE = 60_000_000
GAP = 60 * MINUTE


def long(wide: pa.Table) -> Ticks:
    names = [name for name in wide.column_names if name != "ts"]
    times = np.repeat(wide.column("ts").cast(pa.int64()).to_numpy(), len(names))
    values = np.stack([wide.column(name).cast(pa.float64()).to_numpy() for name in names], axis=1).reshape(-1)
    there = np.isfinite(values)
    return Ticks.of(np.tile(names, wide.num_rows)[there], times[there], values[there])


@pytest.fixture(scope="module")
def wide() -> pa.Table:
    return pq.read_table(PATH)


@pytest.fixture(scope="module")
def learnt(wide: pa.Table) -> Statistics:
    """Five pieces of unequal length, merged."""
    cuts = [0, 17, 2000, 2001, 9000, wide.num_rows]
    pieces = []
    for start, end in pairwise(cuts):
        piece = Statistics("stocks", "value", Rules(longest_gap=GAP), period=MINUTE)
        for at in range(start, end, 1500):
            piece.update(long(wide.slice(at, min(1500, end - at))))
        pieces.append(piece)
    return combine(reversed(pieces))


def test_every_stock_equals_numpy(wide: pa.Table, learnt: Statistics) -> None:
    figures = learnt.value()
    times = wide.column("ts").cast(pa.int64()).to_numpy()
    assert figures.items == tuple(sorted(name for name in wide.column_names if name != "ts"))
    for place, name in enumerate(figures.items):
        values = wide.column(name).cast(pa.float64()).to_numpy()
        there = np.isfinite(values)
        at, values = times[there], values[there]
        near = np.diff(at) <= GAP
        changes = np.diff(values)
        assert figures.movement.sumdiff[place] == pytest.approx(np.abs(changes[near]).sum(), rel=1e-9)
        assert figures.movement.gap_sumdiff[place] == pytest.approx(np.abs(changes[~near]).sum(), rel=1e-9)
        assert figures.movement.changes[place] == near.sum()
        assert figures.movement.square[place] == pytest.approx((changes[near] ** 2).sum(), rel=1e-9)
        assert figures.movement.elapsed[place] == pytest.approx(np.diff(at)[near].sum() / 1e6, rel=1e-9)
        assert figures.moments.mean[place] == pytest.approx(values.mean(), rel=1e-9)
        assert figures.moments.variance[place] == pytest.approx(values.var(), rel=1e-9)
        before, after = values[:-1][near], values[1:][near]
        assert figures.moments.autocorrelation[place, 0] == pytest.approx(np.corrcoef(before, after)[0, 1], rel=1e-9)
        slope, constant = np.polyfit(before, after, 1)
        assert figures.moments.coefficient[place] == pytest.approx(slope, rel=1e-7)
        assert figures.moments.constant[place] == pytest.approx(constant, rel=1e-6, abs=1e-6)
        chain = figures.markov.chains[place]
        assert chain.weights.sum() == (near[1:] & near[:-1]).sum()
        states = np.array([chain.state(change) for change in changes])
        both = near[1:] & near[:-1]
        pairs, counts = np.unique(np.stack([states[:-1][both], states[1:][both]]), axis=1, return_counts=True)
        assert chain.before.tolist() == pairs[0].tolist()
        assert chain.after.tolist() == pairs[1].tolist()
        assert chain.weights.tolist() == counts.tolist()
        assert figures.histogram.distributions[place].total == len(values)


def test_all_pairs_equal_numpy(wide: pa.Table, learnt: Statistics) -> None:
    found = learnt.value().similarity
    assert found is not None
    times = wide.column("ts").cast(pa.int64()).to_numpy()
    bins, rows = np.unique(times // MINUTE, return_inverse=True)
    changes = np.zeros((len(bins), len(found.items)))
    for place, name in enumerate(found.items):
        values = wide.column(name).cast(pa.float64()).to_numpy()
        there = np.flatnonzero(np.isfinite(values))
        near = np.diff(times[there]) <= GAP
        np.add.at(changes[:, place], rows[there[1:][near]], np.diff(values[there])[near])
    norms = np.linalg.norm(changes, axis=0)
    expected = changes.T @ changes / np.outer(norms, norms)
    np.testing.assert_allclose(found.matrix(), expected, rtol=1e-9, atol=1e-12)
    assert found.cosine("GOOG", "GOOGL") > 0.9, "two classes of one company move together"
