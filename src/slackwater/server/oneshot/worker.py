"""Worker process of one-shot queries: replicas of the tables, a locked database, one question at a time.

It is started by `server.oneshot.process` with one end of a socket pair and its limits as arguments. A thread reads the
messages, so that a question can be cancelled while it runs; the main thread does the work. The process is the first
that the system ends when memory runs out: what it does can be asked again.
"""

import os
import resource
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

import msgspec
import pyarrow as pa

from slackwater.core.errors import SlackwaterError
from slackwater.core.region_codec import region_of
from slackwater.core.schema_codec import schema_of
from slackwater.deployment.lifeline import hold_lifeline
from slackwater.evaluator import Evaluator, Masked, Readable, TooLarge, too_much_memory
from slackwater.server.oneshot.answers import arrow_body, json_body
from slackwater.server.oneshot.base import (
    HEAD_BYTES,
    PRESENT,
    AskQuestion,
    CancelQuestion,
    FromWorker,
    NewStream,
    NoStream,
    QuestionAnswered,
    QuestionBegun,
    QuestionLimits,
    TableRead,
    WorkerReady,
    frame,
    read_head,
    read_to_worker,
)
from slackwater.server.oneshot.replica import TableReplica

_MOST_DESCRIPTORS = 64
_MEMORY_SLACK = 128 * 1024 * 1024
"""Address space beside the memory of a question: what the allocator sets aside."""
_STATM = Path("/proc/self/statm")
_FIRST_TO_GO = "1000"


class Worker:
    """The main thread of the process."""

    def __init__(self, connection: socket.socket, limits: QuestionLimits) -> None:
        self._connection = connection
        self._limits = limits
        self._evaluator = Evaluator(limits)
        self._work: SimpleQueue[tuple[NewStream, int] | NoStream | AskQuestion] = SimpleQueue()
        self._replicas: dict[str, TableReplica] = {}
        self._asked = -1
        """Number of the question that runs."""

    def run(self) -> None:
        """Answer questions until the server is gone."""
        threading.Thread(target=self._listen, name="slackwater-question", daemon=True).start()
        self._evaluator.run("SELECT 1", {})
        self._send(WorkerReady())
        while True:
            match self._work.get():
                case (NewStream() as stream, descriptor):
                    schema = schema_of(stream.schema)
                    self._forget(schema.name)
                    self._replicas[schema.name] = TableReplica(stream.number, schema, descriptor)
                case NoStream(table):
                    self._forget(table)
                case AskQuestion() as question:
                    self._answer(question)

    def _forget(self, table: str) -> None:
        known = self._replicas.pop(table, None)
        if known is not None:
            known.close()

    def _answer(self, question: AskQuestion) -> None:
        for table in question.tables:
            self._replicas[table.name].read(table.end)
        began = time.process_time()
        self._asked = question.number
        self._send(QuestionBegun(question.number))
        body, failure, message = b"", None, ""
        try:
            body = self._evaluated(question)
        except SlackwaterError as error:
            failure, message = type(error).__name__, str(error)
        except MemoryError:
            failure, message = TooLarge.__name__, str(too_much_memory(self._limits.query_memory))
        self._asked = -1
        self._send(QuestionAnswered(question.number, failure, message, time.process_time() - began), body)

    def _evaluated(self, question: AskQuestion) -> bytes:
        tables = {table.name: self._visible(table) for table in question.tables}
        with bounded_memory(self._limits.query_memory):
            found = self._evaluator.run(question.statement, tables)
        return (arrow_body if question.arrow else json_body)(found, question.as_of)

    def _visible(self, table: TableRead) -> Readable | Masked:
        """The rows of a table that the caller may see."""
        replica = self._replicas[table.name]
        rows, names = replica.rows(), tuple(column.name for column in replica.schema.columns)
        if table.region is not None:
            # Imported where it is needed: most questions come from callers that may see everything.
            from slackwater.server.oneshot.rights import masked

            return Masked(_ArrowStream(masked(rows, region_of(table.region), replica.schema)), names, PRESENT)
        return _ArrowStream(rows) if replica.all_present else Masked(_ArrowStream(rows), names, PRESENT)

    def _send(self, message: FromWorker, body: bytes = b"") -> None:
        self._connection.sendall(frame(message, len(body)))
        if body:
            self._connection.sendall(body)

    def _listen(self) -> None:
        """Read messages until there are no more; then the server is gone, and this process goes too."""
        descriptors: deque[int] = deque()
        try:
            while True:
                size, _ = read_head(self._receive(HEAD_BYTES, descriptors))
                message = read_to_worker(self._receive(size, descriptors))
                if isinstance(message, CancelQuestion):
                    if message.number == self._asked:
                        self._evaluator.interrupt()
                elif isinstance(message, NewStream):
                    self._work.put((message, descriptors.popleft()))
                else:
                    self._work.put(message)
        finally:
            os._exit(0)

    def _receive(self, size: int, descriptors: deque[int]) -> bytes:
        pieces = b""
        while len(pieces) < size:
            piece, found, _, _ = socket.recv_fds(self._connection, size - len(pieces), _MOST_DESCRIPTORS)
            descriptors.extend(found)
            if not piece:
                raise EOFError
            pieces += piece
        return pieces


class _ArrowStream:
    """A table as nothing but an Arrow stream: DuckDB filters it by itself, not by Arrow's expressions."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._rows.schema.__arrow_c_schema__()


@contextmanager
def bounded_memory(most: int) -> Iterator[None]:
    """Let the process take only so much more memory within a with statement, whether the database counts it or not."""
    if not _STATM.exists():
        yield
        return
    taken = int(_STATM.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + most + _MEMORY_SLACK, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def main() -> None:
    """Begin: `worker DESCRIPTOR LIMITS`, the limits as JSON."""
    hold_lifeline()
    # Ctrl-C goes to the whole group of processes; this one ends with the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)
    pa.set_cpu_count(1)
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.setblocking(True)
    Worker(connection, msgspec.json.decode(sys.argv[2], type=QuestionLimits)).run()


if __name__ == "__main__":
    main()
