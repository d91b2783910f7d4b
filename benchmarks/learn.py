"""Rows a second that `learn` counts on `local[2]`, after start-up, with and without the similarity of pairs.

A long Parquet file of 100 items: 10⁶ rows to warm up and to compare memory with, then 10⁷. Memory is the largest
resident set of the driver's Java, of this process and of the Python workers, seen while it ran.
"""

import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import report
from slackwater.core import Instant
from slackwater.pipeline.jobs.learn import Course, learn_files, numeric_columns
from slackwater.pipeline.session import build_session
from slackwater.sources import infer

ITEMS = 100
SECOND = 1_000_000
NOW = Instant(1_800_000_000 * SECOND)
MEBI = 2**20


def write_trace(path: Path, ticks: int, items: int = ITEMS) -> None:
    """Random walks, a row group at a time."""
    random = np.random.default_rng(1)
    names = pa.array([f"i{k:04d}" for k in range(items)])
    level, block = np.zeros(items), max(1, 500_000 // items)
    schema = pa.schema([("item", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("value", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, ticks, block):
            count = min(block, ticks - first)
            walk = level + np.cumsum(random.normal(size=(count, items)), axis=0)
            level = walk[-1]
            times = (1_600_000_000 + np.repeat(np.arange(first, first + count), items)) * SECOND
            rows = [names.take(pa.array(np.tile(np.arange(items), count))), pa.array(times), pa.array(walk.ravel())]
            writer.write_table(
                pa.Table.from_arrays([rows[0], rows[1].cast(schema.field(1).type), rows[2]], schema=schema)
            )


class Memory(threading.Thread):
    """Watches the resident memory of this process and of all that descend from it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.largest: dict[str, int] = {}
        self._over = threading.Event()

    def run(self) -> None:
        """Look five times a second."""
        while not self._over.wait(0.2):
            now: dict[str, int] = {}
            for kind, resident in _family():
                now[kind] = max(now.get(kind, 0), resident)
            for kind, resident in now.items():
                self.largest[kind] = max(self.largest.get(kind, 0), resident)

    def stop(self) -> dict[str, int]:
        """The largest of each kind, in MiB."""
        self._over.set()
        self.join()
        return {f"{kind}_mib": resident // MEBI for kind, resident in sorted(self.largest.items())}


def _family() -> list[tuple[str, int]]:
    """Kind and resident bytes of each process below this one."""
    import os

    parents, kinds, resident = {}, {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(
                line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line
            )
        except OSError:
            continue
        number = int(folder.name)
        parents[number] = int(status["PPid"])
        kinds[number] = "java" if status["Name"].strip() == "java" else "python_worker"
        resident[number] = int(status.get("VmRSS", "0 kB").split()[0]) * 1024
    own, found = os.getpid(), []
    for number in parents:
        above = number
        while above in parents and above != own:
            above = parents[above]
        if above == own:
            found.append(("python_driver" if number == own else kinds[number], resident[number]))
    return found


def measured(path: Path, session: object, *, pairs: bool) -> dict[str, float]:
    reading = infer(path, key=("item",), time="at")
    course = Course(
        reading.schema,
        numeric_columns(reading.schema),
        longest_gap=20 * SECOND,
        period=SECOND if pairs else None,
    )
    memory = Memory()
    memory.start()
    began = time.monotonic()
    learnt = learn_files([reading], course, session, NOW)  # type: ignore[arg-type]
    taken = time.monotonic() - began
    return {
        "rows": learnt.rows,
        "seconds": round(taken, 2),
        "rows_a_second": round(learnt.rows / taken),
        **memory.stop(),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        small, large, wide = (Path(folder) / f"{name}.parquet" for name in ("small", "large", "wide"))
        write_trace(small, 10_000)
        write_trace(large, 100_000)
        session = build_session("local[2]")
        try:
            measured(small, session, pairs=True)  # compiles and warms up
            figures = {
                "1e6_rows": measured(small, session, pairs=False),
                "1e7_rows": measured(large, session, pairs=False),
                "1e7_rows_with_pairs": measured(large, session, pairs=True),
            }
            large.unlink()
            write_trace(wide, 10_000, items=2_000)
            figures["2000_items_x_10000_ticks_with_pairs"] = measured(wide, session, pairs=True)
        finally:
            session.stop()
    report.write("learn", {"master": "local[2]", "items": ITEMS, **figures})


if __name__ == "__main__":
    main()
