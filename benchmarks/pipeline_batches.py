"""How long a micro-batch of the Spark pipeline takes, and how many rows a second large ones take in.

    python -m benchmarks.pipeline_batches

`local[2]`; the log, the results and Spark's checkpoint are on the current folder's file system. A *micro-batch* is from
the moment Spark finds new records until it has noted the batch as done; what is kept can be read a little earlier.
*Empty* is a batch of one record with which nothing is done; *empty, kept* is the same through the pipeline. With rows,
they go through the log into latest and history; *settling each* works every batch into its final place at once,
otherwise that happens every 20 batches and is part of the figures.
*Control* is the smallest Spark job there is: it tells how busy the machine was.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import report
from slackwater.core import Column, DataType, TableSchema
from slackwater.core.arrow import INSTANT, update_schema
from slackwater.log import LocalLog, Record, TableDefined, Updates
from slackwater.pipeline.session import build_session
from slackwater.pipeline.source import FORMAT, register
from slackwater.pipeline.tables.snapshot import read_latest, snapshot
from slackwater.pipeline.tables.stream import SETTLE_BATCHES, BatchProgress, run_pipeline

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
SYMBOLS = pa.array([f"SYM{n:04d}" for n in range(1000)])
WARM_UP, BATCHES = 30, 80
LARGE_ROWS, LARGE_BATCHES = 1_000_000, 4


def quotes(first: int, rows: int) -> Updates:
    """Quotes of 1 000 symbols, in order, each its own."""
    numbers = np.arange(first, first + rows)
    at = pa.array(1_700_000_000_000_000 + numbers * 100).cast(INSTANT)
    columns = [
        SYMBOLS.take(pa.array(numbers * 7919 % len(SYMBOLS))),
        pa.array(100 + numbers * 104729 % 10007 / 100),
        at,
        pa.array(np.zeros(rows, np.int8)),
        at,
        pa.repeat("feed-1", rows),
        pa.array(numbers),
    ]
    return Updates("quotes", pa.RecordBatch.from_arrays(columns, schema=update_schema(QUOTES)))


def percentiles(milliseconds: list[float]) -> dict[str, float]:
    """The median, and what 99 of 100 stay below."""
    return {
        "p50_ms": round(statistics.median(milliseconds), 1),
        "p99_ms": round(float(np.percentile(milliseconds, 99)), 1),
    }


def empty(session: SparkSession, folder: Path) -> dict[str, object]:
    """What a micro-batch over the log costs by itself."""
    register(session)
    done: list[int] = []
    with LocalLog(folder / "log") as log:
        log.append([TableDefined(QUOTES)])
        records = session.readStream.format(FORMAT).load(str(folder / "log"))
        stream = (
            records.writeStream.foreachBatch(lambda batch, number: done.append(number))
            .option("checkpointLocation", (folder / "checkpoint").as_uri())
            .start()
        )
        for nth in range(WARM_UP + BATCHES):
            while len(done) <= nth or stream.status["isTriggerActive"]:
                time.sleep(0.001)
            log.append([TableDefined(QUOTES)])
        whole = durations(stream)
        stream.stop()
    return {"micro_batch": percentiles(whole)}


def durations(stream: StreamingQuery) -> list[float]:
    """How long the last micro-batches took; looking in vain is none."""
    told = [one["durationMs"] for one in stream.recentProgress]
    return [float(one["triggerExecution"]) for one in told if "addBatch" in one][-BATCHES:]


def small(session: SparkSession, folder: Path, record: Callable[[int], Record], settle: int) -> dict[str, object]:
    """One batch after the other, each appended when the one before is done."""
    until_readable: list[float] = []
    with LocalLog(folder / "log") as log:
        log.append([TableDefined(QUOTES)])
        with run_pipeline(folder / "log", folder / "out", session, settle_batches=settle) as run:
            [stream] = session.streams.active
            for nth in range(WARM_UP + BATCHES):
                end = log.append([record(nth)])
                appended = time.perf_counter()
                while run.position < end:
                    time.sleep(0.0005)
                until_readable.append((time.perf_counter() - appended) * 1e3)
                while stream.status["isTriggerActive"]:
                    time.sleep(0.001)
            whole = durations(stream)
    return {"micro_batch": percentiles(whole), "append_to_readable": percentiles(until_readable[WARM_UP:])}


def large(session: SparkSession, folder: Path) -> dict[str, object]:
    """A million rows a batch, settled each time; the first batch, on cold workers, is left out."""
    with LocalLog(folder / "log") as log:
        log.append([TableDefined(QUOTES)])
        rows = LARGE_ROWS // 20
        for nth in range(20 * (LARGE_BATCHES + 1)):
            log.append([quotes(nth * rows, rows)])
    told: list[BatchProgress] = []
    with run_pipeline(
        folder / "log", folder / "out", session, available_now=True, max_rows=LARGE_ROWS, progress=told.append
    ) as run:
        run.wait()
    began = time.perf_counter()
    keys = read_latest(folder / "out", "quotes").num_rows
    read = time.perf_counter() - began
    full = [one for one in told if one.rows == LARGE_ROWS][1:]
    assert snapshot(folder / "out").history("quotes").count_rows() == LARGE_ROWS * (LARGE_BATCHES + 1)
    return {
        "rows_a_batch": LARGE_ROWS,
        "rows_a_second": round(sum(one.rows for one in full) / sum(one.seconds for one in full)),
        "rows_a_second_without_settling": round(
            sum(one.rows for one in full) / sum(one.seconds - one.settling for one in full)
        ),
        "reading_latest_ms": round(read * 1e3, 1),
        "keys": keys,
    }


def control(session: SparkSession) -> dict[str, float]:
    """The smallest job."""
    times = []
    for _ in range(WARM_UP + BATCHES):
        began = time.perf_counter()
        session.range(1).collect()
        times.append((time.perf_counter() - began) * 1e3)
    return percentiles(times[WARM_UP:])


def main() -> None:
    began = time.perf_counter()
    session = build_session("local[2]")
    session.range(1).collect()
    started = time.perf_counter() - began
    figures: dict[str, object] = {
        "command": "python -m benchmarks.pipeline_batches",
        "session_and_first_job_s": round(started, 1),
    }
    cases: dict[str, tuple[Callable[[int], Record], int]] = {
        "1000_rows": (lambda nth: quotes(nth * 1000, 1000), SETTLE_BATCHES),
        "1000_rows_settling_each": (lambda nth: quotes(nth * 1000, 1000), 1),
        "empty_kept": (lambda nth: TableDefined(QUOTES), SETTLE_BATCHES),
    }
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        figures["empty"] = empty(session, Path(folder))
    for name, (record, settle) in cases.items():
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            figures[name] = small(session, Path(folder), record, settle)
    figures["control"] = control(session)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        figures["large"] = large(session, Path(folder))
    session.stop()
    report.write("pipeline_batches", figures)


if __name__ == "__main__":
    main()
