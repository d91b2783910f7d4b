"""Summary shuffle: partial summaries from executors to the driver, as files in a shared folder.

With the similarity of all pairs of thousands of items a piece is tens of megabytes. As rows they would pass through
the memory of Spark's driver several times over; as files they do not touch it. All tasks run in one job. The driver
takes the pieces in order, each as soon as it is there, and deletes it: it holds one piece at a time.
"""

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from slackwater.core.errors import StatisticsError, StoreError, TooManyItems

WRITTEN = "piece long"
_WRITTEN = pa.schema([("piece", pa.int64())])
_LOOK = 0.02


@dataclass(frozen=True)
class SummaryPiece:
    """Result of one task: the number of rows and a summary for each column, as bytes."""

    rows: int
    summaries: tuple[bytes, ...]


@dataclass(frozen=True)
class SummaryTask:
    """The work of one task: it makes its piece out of its batches and writes it. A value that Spark can send."""

    folder: str
    make: Callable[[Iterator[pa.RecordBatch]], SummaryPiece]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Make the piece, write it, and report it."""
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        try:
            piece = self.make(batches)
        except StatisticsError as refused:
            kind = "many" if isinstance(refused, TooManyItems) else "order"
            _put(_refusal(Path(self.folder)), f"{kind} {refused}".encode())
            return
        for nth, summary in enumerate(piece.summaries):
            _put(Path(self.folder) / f"{number}.{nth}", summary)
        _put(_whole(Path(self.folder), number), str(piece.rows).encode())
        yield pa.RecordBatch.from_pydict({"piece": [number]}, schema=_WRITTEN)


@contextmanager
def pieces_of(
    frame: DataFrame,
    total: int,
    make: Callable[[Iterator[pa.RecordBatch]], SummaryPiece],
    scratch: Path | None = None,
) -> Iterator[Iterator[SummaryPiece]]:
    """Run `make` over each of the frame's `total` partitions; what comes are the pieces in order.

    `scratch` is a folder that all executors see under the same path; None is this machine's folder for such things,
    which will do on one machine. Leaving the iteration early stops the job. Raises StatisticsError where a task did.
    """
    context, tag = frame.sparkSession.sparkContext, f"pieces-{uuid.uuid4().hex}"

    def job() -> set[int]:
        context.addJobTag(tag)
        return {row["piece"] for row in frame.mapInArrow(SummaryTask(folder, make), WRITTEN).collect()}

    where = None if scratch is None else scratch.absolute()
    with tempfile.TemporaryDirectory(prefix="slackwater-pieces-", dir=where) as folder, ThreadPoolExecutor(1) as pool:
        running = pool.submit(job)
        try:
            yield (piece for number in range(total) if (piece := _awaited(Path(folder), number, running)) is not None)
        finally:
            if not running.done():
                context.cancelJobsWithTag(tag)
                running.exception()


def _awaited(folder: Path, number: int, running: "Future[set[int]]") -> SummaryPiece | None:
    """One piece; None if its partition turned out to be empty."""
    while True:
        over = running.done()
        if _refusal(folder).exists():
            kind, _, why = _refusal(folder).read_text().partition(" ")
            raise TooManyItems(why) if kind == "many" else StatisticsError(why)
        if _whole(folder, number).exists():
            return _taken(folder, number)
        if over:
            if number in running.result():
                raise StoreError(
                    f"a piece was written to {folder} by an executor and is not there: name a folder that all machines "
                    f"see under the same path"
                )
            return None
        time.sleep(_LOOK)


def _taken(folder: Path, number: int) -> SummaryPiece:
    files = sorted(folder.glob(f"{number}.[0-9]*"), key=lambda file: int(file.suffix[1:]))
    piece = SummaryPiece(int(_whole(folder, number).read_text()), tuple(file.read_bytes() for file in files))
    for file in files:
        file.unlink()
    return piece


def _put(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{uuid.uuid4().hex}")
    draft.write_bytes(content)
    draft.replace(path)


def _whole(folder: Path, number: int) -> Path:
    return folder / f"{number}.whole"


def _refusal(folder: Path) -> Path:
    return folder / "refused"
