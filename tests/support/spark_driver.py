"""Spark driver process to be killed: it folds a log into a folder, prints committed positions, then loads files.

python driver.py LOG OUT MASTER MAX_ROWS SETTLE_BATCHES [FILE]
"""

import sys
from collections.abc import Iterator
from zipimport import zipimporter

import pyarrow as pa

from slackwater.core import Instant
from slackwater.pipeline.jobs.load import load
from slackwater.pipeline.session import build_session
from slackwater.pipeline.tables.stream import run_pipeline
from slackwater.sources import infer


def package(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where an executor may import the shipped package from; on one machine its daemon has imported another before."""
    for _ in batches:
        shipped = [
            path for path in sys.path if path.endswith("/slackwater.zip") and zipimporter(path).is_package("slackwater")
        ]
        yield pa.RecordBatch.from_pydict({"file": [" ".join(shipped)]})


def main() -> None:
    log, out, master, max_rows, settle_batches, *files = sys.argv[1:]
    session = build_session(master)
    print("session", flush=True)
    with run_pipeline(
        log,
        out,
        session,
        available_now=True,
        max_rows=int(max_rows),
        settle_batches=int(settle_batches),
        progress=lambda step: print(step.position, flush=True),
    ) as run:
        run.wait()
    for file in files:
        receipt = load([infer(file, table="loaded")], f"{out}-loaded", session, Instant(1_800_000_000_000_000))
        print("loaded", receipt.accepted, receipt.quarantined, flush=True)
        print("package", session.range(1).mapInArrow(package, "file string").collect()[0].file, flush=True)
    session.stop()
    print("done", flush=True)


if __name__ == "__main__":
    main()
