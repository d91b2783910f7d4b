"""How fast the local log takes updates: one thread, every append flushed to the disk before it returns.

    python -m benchmarks.log_append

The updates are quotes (symbol TEXT, price DOUBLE, at TIMESTAMP and the four columns of provenance). An append is
one batch. *With encoding* begins with an Arrow batch in memory, as admission hands it over, and is what `append`
does; *without* leaves out turning the batch into bytes and its checksum, to show what the disk alone takes.
*Plain file* writes the same bytes to a file with the same flushes: the control, which tells what the disk takes.

Each figure is the median of several runs, each on a fresh folder in the current folder's file system. Reading is from
files that are still in the system's memory, with checksums.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from benchmarks import report
from slackwater.core import Column, DataType, Position, TableSchema
from slackwater.core.arrow import update_schema
from slackwater.log import LocalLog, Updates, encode
from slackwater.log.frame import prepare
from slackwater.log.writer import SEGMENT_BYTES, Writer, system_time

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
APPENDS = {100: 1000, 1000: 500, 10_000: 200}
RUNS = 5


def batches(rows: int, count: int) -> list[Updates]:
    """Quotes of 500 symbols, no two batches alike."""
    made = []
    for nth in range(count):
        numbers = range(nth * rows, (nth + 1) * rows)
        at = pa.array([1_700_000_000_000_000 + n * 100 for n in numbers], pa.int64())
        columns = [
            pa.array([f"SYM{n * 7919 % 500:03d}" for n in numbers]),
            pa.array([100 + (n * 104729 % 10007) / 100 for n in numbers]),
            at.cast(pa.timestamp("us", "UTC")),
            pa.array([0] * rows, pa.int8()),
            at.cast(pa.timestamp("us", "UTC")),
            pa.array(["feed-1"] * rows),
            pa.array(numbers, pa.int64()),
        ]
        made.append(Updates("quotes", pa.RecordBatch.from_arrays(columns, schema=update_schema(QUOTES))))
    return made


def measure(rows: int, appends: int) -> dict[str, int]:
    # A few batches used in turn: making all of them would take longer than appending them.
    prepared = batches(rows, min(appends, 20))
    turns = [prepared[n % len(prepared)] for n in range(appends)]
    ready = {id(batch): prepare(encode(batch)) for batch in prepared}

    def with_encoding(folder: Path) -> float:
        with LocalLog(folder) as log:
            began = time.perf_counter()
            for batch in turns:
                log.append([batch])
            return time.perf_counter() - began

    def without_encoding(folder: Path) -> float:
        writer = Writer(folder, SEGMENT_BYTES, system_time)
        began = time.perf_counter()
        for batch in turns:
            writer.append_prepared([batch], [ready[id(batch)]])
        took = time.perf_counter() - began
        writer.close()
        return took

    def plain_file(folder: Path) -> float:
        with (folder / "file").open("wb", buffering=0) as file:
            began = time.perf_counter()
            for batch in turns:
                os.writev(file.fileno(), ready[id(batch)].pieces)
                os.fdatasync(file.fileno())
            return time.perf_counter() - began

    def reading(folder: Path) -> float:
        with LocalLog(folder) as log:
            for at in range(0, appends, 50):
                log.append(turns[at : at + 50])
            began = time.perf_counter()
            seen = sum(entry.rows for entry in log.read(Position(0)))
            took = time.perf_counter() - began
        assert seen == rows * appends
        return took

    # In turns, so that a slow moment of the machine does not fall on one of them alone.
    ways = (with_encoding, without_encoding, plain_file, reading)
    rates: dict[str, list[float]] = {way.__name__: [] for way in ways}
    for _ in range(RUNS):
        for way in ways:
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
                rates[way.__name__].append(rows * appends / way(Path(folder)))
    medians = {name: round(statistics.median(measured)) for name, measured in rates.items()}
    return {"rows_a_batch": rows, "bytes_a_batch": ready[id(prepared[0])].size, **medians}


def main() -> None:
    report.write(
        "log_append",
        {
            "command": "python -m benchmarks.log_append",
            "unit": "updates per second, one thread, every append flushed; median of 5 runs",
            "figures": [measure(rows, appends) for rows, appends in APPENDS.items()],
        },
    )


if __name__ == "__main__":
    main()
