"""Workloads for push/pull labelling: generated ones, and recorded ones from a folder of files.

All are in whole coordinates (a price in dollars, a position in 10⁻⁵ degrees), with closed ranges and M1 unless said
otherwise.

- `clustered`: middles of queries and updates in five Gaussian clusters each, lengths G(500, 400), over 0..100 000.
- `sky`: look-ups by right ascension from the log of SkyServer. They are points: a range is the point ± a half-width
  drawn log-uniformly from 0.1 to 5 degrees, or a given one. Updates are the positions of SDSS objects, drawn again and
  again.
- `cars`: updates are listings posted and removed, at their price, year and mileage. Queries are made from listings:
  who looks at cars looks for some like one that is there, within a share of its price, some years and some mileage.
"""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from slackwater.planning.push_pull.base import Floats, Integers, Moves, Queries, Workload

DOMAIN = 100_000
DEGREE = 100_000


def of_points(lows: Integers, highs: Integers, points: Integers, setup: Floats | None = None) -> Workload:
    """Closed boxes and updated points, each update a message."""
    places, counts = np.unique(points, axis=0, return_counts=True)
    prices = np.ones(len(lows)) if setup is None else setup
    queries = Queries(prices, np.arange(len(lows)), lows, highs)
    return Workload(queries, places, counts.astype(np.float64), np.zeros(len(places)), Moves.none())


def middles(rng: np.random.Generator, count: int, axes: int, clusters: int = 5) -> Floats:
    """Points in Gaussian clusters whose centres and widths are drawn too."""
    centre = rng.uniform(0, DOMAIN, (clusters, axes))
    width = rng.uniform(DOMAIN / 100, DOMAIN / 10, (clusters, axes))
    own = rng.integers(0, clusters, count)
    return np.clip(rng.normal(centre[own], width[own]), 0, DOMAIN)


def clustered(
    rng: np.random.Generator, queries: int, updates: int, axes: int = 1, length: tuple[float, float] = (500, 400)
) -> Workload:
    """The synthetic workload of the paper, in any number of attributes."""
    at = middles(rng, queries, axes)
    half = np.abs(rng.normal(*length, (queries, axes))) / 2
    points = np.round(middles(rng, updates, axes)).astype(np.int64)
    return of_points(np.floor(at - half).astype(np.int64), np.ceil(at + half).astype(np.int64), points)


def sky(
    rng: np.random.Generator, folder: Path, queries: int, updates: int, half_width: float | None = None
) -> Workload:
    """Look-ups drawn from the log, each at most once, and objects that change."""
    asked = pq.read_table(folder / "skyserver_ra_queries.parquet")["ra"].to_numpy()
    objects = pq.read_table(folder / "sdss_dr14_objects_10k.parquet", columns=["ra"])["ra"].to_numpy()
    at = rng.choice(asked, queries, replace=False)
    half = np.exp(rng.uniform(np.log(0.1), np.log(5), queries)) if half_width is None else np.full(queries, half_width)
    low, high = np.clip(at - half, 0, 360), np.clip(at + half, 0, 360)
    points = np.round(rng.choice(objects, updates) * DEGREE).astype(np.int64)[:, None]
    return of_points(_coordinates(low * DEGREE), _coordinates(high * DEGREE), points)


def cars(rng: np.random.Generator, folder: Path, queries: int, updates: int, axes: int = 1) -> Workload:
    """People who look for cars like one that is there, and listings that come and go."""
    table = pq.read_table(folder / "us_car_listings_2018_2019.parquet", columns=["price", "year", "mileage"])
    listings = np.stack([table[name].to_numpy() for name in ("price", "year", "mileage")[:axes]], axis=1)
    listings = listings[np.isfinite(listings.astype(np.float64)).all(axis=1)].astype(np.float64)
    # Four hundred wishes, the first of them looked for most: what is looked for is not spread as what is there.
    wishes = listings[rng.choice(len(listings), 400)]
    popular = 1 / np.arange(1, 401)
    at = wishes[rng.choice(400, queries, p=popular / popular.sum())]
    half = np.stack([at[:, 0] * 0.05, np.full(queries, 1.0), np.full(queries, 10_000.0)][:axes], axis=1)
    points = listings[rng.integers(0, len(listings), updates)].astype(np.int64)
    return of_points(np.floor(at - half).astype(np.int64), np.ceil(at + half).astype(np.int64), points)


def _coordinates(values: Floats) -> Integers:
    return np.round(values).astype(np.int64)[:, None]
