"""The picture of the front page: a sum that moves at every tick, and the values that a client is sent.

python -m experiments.front_page docs/front-page
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from slackwater.core import (
    Aggregate,
    AggregateFunction,
    Bound,
    Column,
    DataType,
    Instant,
    Origin,
    Position,
    TableSchema,
    Update,
)
from slackwater.core.arrow import to_batch
from slackwater.processing.host import Host

TICKS, ITEMS, WITHIN = 240, 20, 12.0


def sums_sent() -> tuple[list[float], list[float]]:
    """The sum at each tick, and the value that a client has then."""
    columns = (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE))
    quotes = TableSchema("quotes", columns, key=("symbol",))
    host = Host()
    host.define(quotes, Position(1))
    host.register(1, Aggregate("quotes", AggregateFunction.SUM, "price", Bound(WITHIN)), Position(2))
    random = np.random.default_rng(7)
    prices = np.full(ITEMS, 100.0)
    truth: list[float] = []
    sent: list[float] = []
    position = 2
    for tick in range(TICKS):
        prices += random.normal(0.02, 0.5, ITEMS)
        updates = [
            Update("quotes", (f"s{item}", float(price)), Instant(tick), Origin("market", tick * ITEMS + item))
            for item, price in enumerate(prices)
        ]
        position += ITEMS
        values = host.apply("quotes", to_batch(quotes, updates), Position(position)).values
        truth.append(float(prices.sum()))
        sent.append(sent[-1] if values is None else float(values.values[0]))
    return truth, sent


def picture(truth: list[float], sent: list[float]) -> Figure:
    """The truth as a line, each value sent as a step with its bound around it."""
    times = np.arange(len(truth))
    starts = [0, *(tick for tick in range(1, len(sent)) if sent[tick] != sent[tick - 1])]
    figure = Figure(figsize=(8.4, 3.0), layout="constrained")
    axes = figure.add_subplot()
    band = np.array(sent)
    axes.fill_between(times, band - WITHIN, band + WITHIN, step="post", color="#cfe3f2", label=f"WITHIN {WITHIN:g}")
    axes.plot(times, truth, color="#333333", linewidth=1.0, label=f"the sum: {len(truth) * ITEMS:,} updates")
    axes.step(times, sent, where="post", color="#1f77b4", linewidth=1.4)
    axes.plot(starts, [sent[tick] for tick in starts], "o", color="#1f77b4", label=f"sent: {len(starts)} messages")
    axes.set(xlabel="tick", ylabel="sum of 20 prices", xlim=(0, len(truth) - 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", frameon=False)
    return figure


def main(folder: Path) -> None:
    """Draw it."""
    matplotlib.rcParams["svg.hashsalt"] = "slackwater"
    picture(*sums_sent()).savefig(folder / "sum.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
