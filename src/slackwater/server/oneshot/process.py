"""One worker process as the server sees it: started, asked one question at a time, and killed at its limit."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from slackwater.core.errors import SlackwaterError, SqlError
from slackwater.core.schema_codec import plain_schema
from slackwater.deployment.lifeline import Lifeline
from slackwater.evaluator import TooLarge, TooSlow, too_slow
from slackwater.server.oneshot import worker
from slackwater.server.oneshot.base import (
    HEAD_BYTES,
    AskQuestion,
    CancelQuestion,
    FromWorker,
    NewStream,
    NoStream,
    QuestionAnswered,
    QuestionBegun,
    QuestionLimits,
    WorkerReady,
    frame,
    read_from_worker,
    read_head,
)
from slackwater.server.oneshot.row_stream import RowStream, RowStreams

NICENESS = 5
GRACE_SECONDS = 0.5
"""For the database to stop by itself at a limit; then its process is killed."""
START_SECONDS = 60.0
CATCH_UP_SECONDS = 30.0
"""For a worker to apply the streams of a question."""
_BUFFER = 1024 * 1024
_ERRORS: dict[str, type[SlackwaterError]] = {kind.__name__: kind for kind in (TooLarge, TooSlow, SqlError)}


class WorkerGone(SlackwaterError):
    """A worker ended before it began with a question: another one can be asked."""


class WorkerProcess:
    """A process that answers questions, from `start` on."""

    def __init__(self, limits: QuestionLimits) -> None:
        self._limits = limits
        self._lifeline = Lifeline()
        self._connection, theirs = socket.socketpair()
        self._connection.setblocking(False)
        for end in (self._connection, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        arguments = [str(theirs.fileno()), msgspec.json.encode(limits).decode()]
        try:
            # In the thread of the event loop: the system ends the child with the thread that started it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", worker.__name__, *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), self._lifeline.descriptor),
                env=self._lifeline.environment,
            )
        except BaseException:
            self._connection.close()
            self._lifeline.close()
            raise
        finally:
            theirs.close()
        self._lifeline.handed_over()
        self._streams: dict[str, int] = {}
        """Numbers of the streams that the worker has."""
        self._asked = 0
        self._torn = False
        """True from the first byte of a message to its last: who stops there does not know where the next begins."""
        self._killed = False
        self.slow = False
        """True once it was made to let others come first."""

    async def start(self) -> None:
        """Wait until it takes questions; one that does not is killed."""
        try:
            async with asyncio.timeout(START_SECONDS):
                message, _ = await self._receive()
            if not isinstance(message, WorkerReady):
                raise EOFError(f"it began with {type(message).__name__}")
        except BaseException:
            self.kill()
            raise

    @property
    def alive(self) -> bool:
        """False once it was killed, or ended by itself."""
        return not self._killed and self._process.poll() is None

    def slow_down(self) -> None:
        """Let others have the processor first from now on; that is not taken back."""
        self.slow = True
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)

    async def ask(
        self, question: AskQuestion, tables: Mapping[str, RowStream], streams: RowStreams
    ) -> tuple[bytes, QuestionAnswered]:
        """Ask a question, with the streams that the worker lacks; it is killed if it does not end in time."""
        try:
            self._hand_over(tables, streams)
            await asyncio.get_running_loop().sock_sendall(self._connection, frame(question))
            async with asyncio.timeout(CATCH_UP_SECONDS):
                begun, _ = await self._receive()
        except (OSError, EOFError, TimeoutError) as error:
            self.kill()
            raise WorkerGone(f"a worker process of one-shot queries ended: {error}") from None
        assert isinstance(begun, QuestionBegun)
        self._asked = question.number
        try:
            async with asyncio.timeout(self._limits.query_seconds + GRACE_SECONDS):
                answered, body = await self._receive()
        except TimeoutError:
            self.kill()
            raise too_slow(self._limits.query_seconds) from None
        except (OSError, EOFError):
            self.kill()
            raise TooLarge(
                f"the process that answered the query ended; most likely the query needs more than "
                f"{self._limits.query_memory // 1024**2} MiB of memory; ask for less"
            ) from None
        assert isinstance(answered, QuestionAnswered)
        self._asked = 0
        if answered.failure is not None:
            raise _ERRORS.get(answered.failure, SqlError)(answered.message)
        return body, answered

    async def give_up(self) -> bool:
        """Cancel the question that runs; False if the process had to be killed for it."""
        if not self.alive:
            return False
        if self._torn:
            self.kill()
            return False
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await asyncio.get_running_loop().sock_sendall(self._connection, frame(CancelQuestion(self._asked)))
                while not isinstance((await self._receive())[0], QuestionAnswered):
                    pass
        except (OSError, EOFError, TimeoutError, msgspec.DecodeError):
            self.kill()
            return False
        self._asked = 0
        return True

    def kill(self) -> None:
        """End the process at once; what waits for it reads the end of its stream."""
        self._killed = True
        with suppress(ProcessLookupError):
            self._process.kill()
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._lifeline.close()

    async def reap(self) -> None:
        """Wait for the end of a killed process, and let go of its connection."""
        await asyncio.to_thread(self._process.wait)
        # Not before: the event loop would not notice that a socket on which it waits was closed.
        self._connection.close()

    def _hand_over(self, tables: Mapping[str, RowStream], streams: RowStreams) -> None:
        for name in [name for name, number in self._streams.items() if not streams.is_current(name, number)]:
            del self._streams[name]
            if name not in tables:
                self._connection.sendall(frame(NoStream(name)))
        for name, stream in tables.items():
            if self._streams.get(name) != stream.number:
                message = frame(NewStream(stream.number, plain_schema(stream.schema)))
                socket.send_fds(self._connection, [message], [stream.descriptor])
                self._streams[name] = stream.number

    async def _receive(self) -> tuple[FromWorker, bytes]:
        size, body = read_head(await self._exactly(HEAD_BYTES))
        received = read_from_worker(await self._exactly(size)), await self._exactly(body)
        self._torn = False
        return received

    async def _exactly(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        found = bytearray(size)
        view, at = memoryview(found), 0
        while at < size:
            count = await loop.sock_recv_into(self._connection, view[at:])
            if not count:
                raise EOFError("it closed its connection")
            at += count
            self._torn = True
        return bytes(found)
