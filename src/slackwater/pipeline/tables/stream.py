"""Streaming job: the log, as it grows, into *latest*, *history* and *quarantine*.

Exactly once, in words: a micro-batch writes files, then a manifest that names them and the new position. Spark
notes the batch as done after that. If the driver dies in between, Spark repeats the batch; its positions lie before
the manifest's, so nothing happens. If it dies earlier, the manifest knows nothing of the batch, and the repetition
writes the same files again. The place in the manifest is the only truth: Spark's checkpoint may even be lost.

A log that was restored from a copy may not hold that place. Then the tables are put aside and made anew, where that
loses nothing: the log begins at 0 and no files were loaded. Otherwise the pipeline is refused.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.core.errors import SlackwaterError, StoreError
from slackwater.pipeline.source import FORMAT, MAX_ROWS, opened, register
from slackwater.pipeline.tables.commit import commit_batch
from slackwater.pipeline.tables.log_place import check_reports, stand
from slackwater.pipeline.tables.recent import KeepRecent
from slackwater.pipeline.tables.reports import SPARK_COLUMN, collect
from slackwater.pipeline.tables.settle import settle, tidy
from slackwater.pipeline.tables.store import CHECKPOINT, TableStore
from slackwater.pipeline.tables.tasks import OnSpark

SETTLE_BATCHES = 20
"""Micro-batches between two settlings."""
SETTLE_ROWS = 1_000_000
"""Recent rows that are settled at once, however few batches brought them."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """Progress of a micro-batch: so many positions up to `position`, in so many seconds, of them for settling."""

    position: int
    rows: int
    seconds: float
    settling: float


_RAISED = re.compile(r"^(?:\w+\.)*\w*(?:Error|Gone|Corrupt|Locked): (.+)$", re.MULTILINE)


def gist(text: str) -> str:
    """The message of a Spark failure: the last exception of a Python worker, else the first line.

    >>> gist("Job aborted\\nTraceback (most recent call last):\\nOSError: [Errno 28] No space left on device\\n at x.y")
    '[Errno 28] No space left on device'
    """
    raised = _RAISED.findall(text)
    return str(raised[-1]) if raised else text.strip().split("\n", 1)[0]


class Pipeline:
    """A pipeline that runs until it is stopped, or until what was there at its start is done.

    Use it in a with statement, or call `stop`. `wait` returns when it has ended by itself and raises what ended it.
    """

    def __init__(
        self,
        log_folder: Path,
        out_folder: Path,
        session: SparkSession,
        *,
        available_now: bool = False,
        max_rows: int = MAX_ROWS,
        settle_batches: int = SETTLE_BATCHES,
        settle_rows: int = SETTLE_ROWS,
        progress: Callable[[BatchProgress], None] | None = None,
    ) -> None:
        self._session = session
        self._settle_batches, self._settle_rows = settle_batches, settle_rows
        self._progress = progress
        self._guard = RLock()
        self._failure: BaseException | None = None
        self._ended = False
        log_folder, out_folder = log_folder.absolute(), out_folder.absolute()
        self._log = log_folder
        log = opened(str(log_folder))
        self._store = TableStore(out_folder)
        try:
            stand(self._store, log, log_folder)
            self._query = self._start(max_rows, available_now)
        except BaseException:
            self._store.release()
            raise

    def _start(self, max_rows: int, available_now: bool) -> StreamingQuery:
        register(self._session)
        place = self._store.state.place
        options = {
            "path": str(self._log),
            "start": str(place.position),
            "incarnation": str(place.incarnation),
            "max_rows": str(max_rows),
        }
        writer = self._session.readStream.format(FORMAT).options(**options).load().writeStream
        checkpoint = self._store.folder / CHECKPOINT
        writer = writer.foreachBatch(self._batch).option("checkpointLocation", checkpoint.as_uri())
        return (writer.trigger(availableNow=True) if available_now else writer).start()

    @property
    def position(self) -> int:
        """Everything before it was taken in."""
        return self._store.state.position

    @property
    def running(self) -> bool:
        """Whether it has neither been stopped nor ended by itself."""
        return not self._ended and self._query.isActive

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended by itself; return whether it has. What made it fail is raised."""
        try:
            # Spark takes fractions, but nothing that is not above 0.
            limit = None if seconds is None else max(seconds, 0.001)
            done = self._query.awaitTermination(limit)  # type: ignore[arg-type]
        except Exception as error:
            self._close(settle_rest=False)
            raise self._reason(error) from error
        if seconds is None or done:
            self._close(settle_rest=True)
            return True
        return False

    def stop(self) -> None:
        """End after the micro-batch under way, with everything settled; doing it again does nothing."""
        self._close(settle_rest=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(settle_rest=kind is None)

    def _close(self, *, settle_rest: bool) -> None:
        with self._guard:
            if self._ended:
                return
            # No batch is under way now; one that is about to begin finds this and gives up.
            self._ended = True
            try:
                self._query.stop()
                if settle_rest and self._failure is None:
                    settle(self._store, OnSpark(self._session))
                    tidy(self._store)
            finally:
                self._store.release()

    def _batch(self, records: DataFrame, number: int) -> None:
        with self._guard:
            if self._ended:
                raise StoreError("the pipeline was stopped before this micro-batch began")
            try:
                self._take(records)
            except BaseException as error:
                self._failure = error
                raise

    def _take(self, records: DataFrame) -> None:
        began = time.monotonic()
        store = self._store
        keep = KeepRecent(str(store.folder), store.state.position)
        reports = collect(records.mapInArrow(keep, SPARK_COLUMN))
        check_reports(store, opened(str(self._log)), reports)
        rows = commit_batch(store, reports)
        taken = time.monotonic()
        manifest = store.state.manifest
        recent = sum(one.file.rows for one in manifest.recent)
        if manifest.batches >= self._settle_batches or recent >= self._settle_rows:
            settle(store, OnSpark(self._session))
        if self._progress is not None:
            now = time.monotonic()
            self._progress(BatchProgress(store.state.position, rows, now - began, now - taken))

    def _reason(self, error: Exception) -> SlackwaterError:
        """The error raised by our own code, else the message of Spark's failure."""
        if isinstance(self._failure, SlackwaterError):
            return self._failure
        return StoreError(
            f"the pipeline stopped at position {self.position}: {gist(str(error))}; what was committed is kept, "
            f"start it again to go on"
        )


def run_pipeline(
    log_folder: Path | str,
    out_folder: Path | str,
    session: SparkSession,
    *,
    available_now: bool = False,
    max_rows: int = MAX_ROWS,
    settle_batches: int = SETTLE_BATCHES,
    settle_rows: int = SETTLE_ROWS,
    progress: Callable[[BatchProgress], None] | None = None,
) -> Pipeline:
    """Start taking a log into a folder of latest, history and quarantine.

    With `available_now` it takes what is in the log at this moment, in micro-batches of at most `max_rows`, and ends;
    else it follows the log. Starting it again goes on where it was. `progress` is called after each micro-batch.
    """
    return Pipeline(
        Path(log_folder),
        Path(out_folder),
        session,
        available_now=available_now,
        max_rows=max_rows,
        settle_batches=settle_batches,
        settle_rows=settle_rows,
        progress=progress,
    )
