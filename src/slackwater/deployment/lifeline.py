"""Lifeline between a parent and its child process: each notices when the other is gone, or no longer works.

The parent keeps one end of a socket pair, the child inherits the other. The system closes an end when its process ends,
however it ends. So a child whose parent was killed reads the end of the stream; it asks itself to end (SIGTERM), and
after `GRACE_SECONDS` ends itself and its process group. On Linux the system kills it at once besides
(`PR_SET_PDEATHSIG`), also when it is stopped or its interpreter is busy: everything durable survives that, and nothing
holds a lock or a port when the parent starts again.

The parent asks over it whether the child works: the child's event loop answers, once it has said that it will
(`answering`). Until then, and after it, a thread answers: a process that starts is alive, however long that takes. No
stranger can come between, as over a port that is open to all.
"""

import asyncio
import faulthandler
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from slackwater.deployment.parent_death import end_with_parent

LIFELINE = "SLACKWATER_LIFELINE"
"""Variable with the descriptor of the child's end."""
GRACE_SECONDS = 10.0
_ASK, _ANSWER = b"?", b"!"


class Lifeline:
    """The parent's end; give `descriptor` and `environment` to the child, then call `handed_over`."""

    def __init__(self) -> None:
        self._own, self._given = socket.socketpair()
        self._own.setblocking(False)

    @property
    def descriptor(self) -> int:
        """The child's end, to be inherited."""
        return self._given.fileno()

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the child."""
        return {**os.environ, LIFELINE: str(self.descriptor)}

    def handed_over(self) -> None:
        """The child has its end now."""
        self._given.close()

    async def answers(self, seconds: float) -> bool:
        """Ask whether the child works; False if it does not say so in time."""
        loop = asyncio.get_running_loop()
        try:
            with suppress(BlockingIOError):
                # Late answers to earlier questions do not count.
                self._own.recv(4096)
            async with asyncio.timeout(seconds):
                await loop.sock_sendall(self._own, _ASK)
                return await loop.sock_recv(self._own, 1) == _ANSWER
        except (TimeoutError, OSError):
            return False

    def close(self) -> None:
        """Let go of the child."""
        self._own.close()
        self._given.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _ChildEnd:
    """The child's end: a thread that waits for questions and for the end of the parent."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._guard = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        threading.Thread(target=self._wait, name="slackwater-lifeline", daemon=True).start()

    def _wait(self) -> None:
        while True:
            try:
                asked = self._end.recv(1)
            except OSError:
                asked = b""
            if not asked:
                break
            with self._guard:
                loop = self.loop
                if loop is not None:
                    loop.call_soon_threadsafe(self._answer)
                    continue
            self._answer()
        _end_without_parent()

    def _answer(self) -> None:
        with suppress(OSError):
            self._end.send(_ANSWER)

    def answer_on(self, loop: asyncio.AbstractEventLoop | None) -> None:
        with self._guard:
            self.loop = loop


_child_end: _ChildEnd | None = None


def hold_lifeline() -> None:
    """Take up the child's end, if a parent has given one; called before anything else."""
    global _child_end
    given = os.environ.pop(LIFELINE, None)
    if given is None:
        return
    os.set_inheritable(int(given), False)
    end_with_parent()
    # A parent that gives up a child that hangs aborts it: then it shows where it hung.
    faulthandler.enable()
    _child_end = _ChildEnd(socket.socket(fileno=int(given)))


@contextmanager
def answering(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let this event loop answer the parent for the length of a with statement."""
    end = _child_end
    if end is None:
        yield
        return
    end.answer_on(loop)
    try:
        yield
    finally:
        end.answer_on(None)


def _end_without_parent() -> None:
    """End in good order if that is possible, and otherwise at any price."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
