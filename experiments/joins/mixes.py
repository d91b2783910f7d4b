"""Mixed workloads, on which no single route is the best for every row: four kinds of rows, and retail events."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.processing.base import Floats, Integers
from slackwater.processing.matching import JoinRows, Joins, select_joins

DOMAIN = 10_000.0
COMMON = 200
"""Keys that half of the rows across have."""


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Select-joins, rows across, and batches of arriving rows, each kind under its name."""

    queries: Joins
    across: JoinRows
    arriving: dict[str, JoinRows]


KINDS = {
    "common keys, wanted": (1.0, 0.0, 0.0, 0.0),
    "rare keys, wanted": (0.0, 1.0, 0.0, 0.0),
    "common keys, unwanted": (0.0, 0.0, 1.0, 0.0),
    "rare keys, unwanted": (0.0, 0.0, 0.0, 1.0),
    "all four alike": (0.25, 0.25, 0.25, 0.25),
    "rare or unwanted": (0.0, 0.5, 0.5, 0.0),
    "few common": (0.1, 0.4, 0.1, 0.4),
}


def four_kinds(rng: np.random.Generator, queries: int, rows: int, arriving: int, *, groups: int = 300) -> Mix:
    """Keys are common or rare, and the own value of a row is wanted by many queries or by few.

    The ranges across lie around points of which the k-th has a share in proportion to 1/k.
    """
    points = rng.permutation((np.arange(groups) + 0.5) * DOMAIN / groups)
    share = 1 / np.arange(1, groups + 1)
    middle = points[rng.choice(groups, queries, p=share / share.sum())]
    left, right = rng.exponential(DOMAIN / groups / 160, (2, queries))
    many = rng.random(queries) < 0.98
    own = np.where(many, rng.uniform(0, DOMAIN / 2, queries), rng.uniform(DOMAIN / 2, DOMAIN, queries))
    half = np.where(many, rng.uniform(50, 250, queries), rng.uniform(0.5, 10, queries))
    joins = select_joins(np.arange(queries), own - half, own + half, middle - left, middle + right)
    rare = rows // 4
    keys = np.concatenate((rng.integers(0, COMMON, rows // 2), 1000 + rng.integers(0, rare, rows - rows // 2)))
    across = JoinRows(np.arange(rows), keys.astype(np.float64), rng.uniform(0, DOMAIN, (rows, 1)))
    return Mix(joins, across, {name: _drawn(rng, arriving, kind, rare) for name, kind in KINDS.items()})


def _drawn(rng: np.random.Generator, count: int, kind: tuple[float, ...], rare: int) -> JoinRows:
    kinds = rng.choice(4, count, p=kind)
    keys = np.where(kinds % 2 == 0, rng.integers(0, COMMON, count), 1000 + rng.integers(0, rare, count))
    own = np.where(kinds < 2, rng.uniform(0, DOMAIN / 2, count), rng.uniform(DOMAIN / 2, DOMAIN, count))
    return JoinRows(np.arange(count), keys.astype(np.float64), own.reshape(-1, 1))


def retail(rng: np.random.Generator, folder: Path, queries: int, arriving: int) -> Mix:
    """Supply and demand from retail events: lines of invoices, one half offered and one half asked for.

    Merchants, small and large alike, want quantities within a fifth or a quarter of one between 1 and 1 000, on either
    side.
    """
    table = pq.read_table(folder / "uci_online_retail_events.parquet", columns=["stock_code", "qty"])
    table = table.filter(pc.greater(table["qty"], 0))
    products: Integers = table["stock_code"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    quantities: Floats = table["qty"].to_numpy().astype(np.float64)
    supply = np.arange(len(products)) % 2 == 0

    def ranges() -> tuple[Floats, Floats]:
        about = np.exp(rng.uniform(0, np.log(1000), queries))
        return np.floor(about * rng.uniform(0.8, 1, queries)), np.ceil(about * rng.uniform(1, 1.25, queries))

    joins = select_joins(np.arange(queries), *ranges(), *ranges())
    count = int(supply.sum())
    across = JoinRows(np.arange(count), products[supply].astype(np.float64), quantities[supply].reshape(-1, 1))
    asked = rng.choice(np.flatnonzero(~supply), arriving)
    rows = JoinRows(np.arange(arriving), products[asked].astype(np.float64), quantities[asked].reshape(-1, 1))
    return Mix(joins, across, {"retail events": rows})
