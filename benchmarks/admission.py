"""How many rows a second admission checks, by the shape of what comes; one thread, batches of 10 000 rows."""

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks import report
from slackwater.admission import Seen, admit
from slackwater.core import Column, DataType, Instant, TableSchema
from slackwater.core.arrival import Arrival

ROWS, BATCHES = 10_000, 60
NOW = Instant(1_800_000_000_000_000)
QUOTES = TableSchema(
    "quotes",
    (
        Column("symbol", DataType.TEXT, nullable=False),
        Column("price", DataType.DOUBLE),
        Column("at", DataType.TIMESTAMP),
    ),
    key=("symbol",),
    event_time="at",
)


def typed(numbers: np.ndarray) -> dict[str, pa.Array]:
    return {
        "symbol": pa.array([f"S{k % 100}" for k in range(ROWS)]),
        "price": pa.array(100 + np.arange(ROWS) % 1000 / 100),
        "at": pa.array(NOW - 1_000_000 + np.arange(ROWS)).cast(pa.timestamp("us", tz="UTC")),
        "$seq": pa.array(numbers),
    }


def texts(numbers: np.ndarray) -> dict[str, pa.Array]:
    columns = typed(numbers)
    at = columns["at"].cast(pa.string())
    return {**columns, "price": columns["price"].cast(pa.string()), "at": at}


def one_bad_in_a_thousand(numbers: np.ndarray) -> dict[str, pa.Array]:
    columns = texts(numbers)
    price = columns["price"].to_pylist()
    price[::1000] = ["rubbish"] * len(price[::1000])
    return {**columns, "price": pa.array(price)}


def shuffled(numbers: np.ndarray) -> dict[str, pa.Array]:
    return typed(np.random.default_rng(1).permutation(numbers))


def rate(make: Callable[[np.ndarray], dict[str, pa.Array]]) -> int:
    """Rows a second over all batches, making them not counted."""
    batches = [
        Arrival("quotes", "s", pa.RecordBatch.from_pydict(make(np.arange(k * ROWS, (k + 1) * ROWS))), "bench")
        for k in range(BATCHES)
    ]
    seen = admit(batches[0], QUOTES, Seen(), NOW).seen
    started = time.perf_counter()
    for batch in batches[1:]:
        seen = admit(batch, QUOTES, seen, NOW).seen
    return round((BATCHES - 1) * ROWS / (time.perf_counter() - started))


def main() -> None:
    shapes = {
        "typed columns": typed,
        "typed, numbers shuffled": shuffled,
        "text columns": texts,
        "text, one bad row in 1000": one_bad_in_a_thousand,
    }
    report.write(
        "admission", {"rows_a_batch": ROWS, "rows_a_second": {name: rate(make) for name, make in shapes.items()}}
    )


if __name__ == "__main__":
    main()
