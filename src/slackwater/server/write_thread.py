"""Write thread: one thread that runs calls in order for an event loop, with as few hand-overs as there can be.

`asyncio.to_thread` and executors make two futures for a call, each with a lock, and wake the loop by a chain of
callbacks. Where a call takes a tenth of a millisecond that is a good part of it.
"""

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias

_Call: TypeAlias = "tuple[Callable[[], None], asyncio.Future[None]]"


class WriteThread:
    """The thread; it starts with its first call."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: Thread | None = None

    async def run(self, call: Callable[[], None]) -> None:
        """Run a call on the thread; raises what it raised. A caller that is cancelled does not end the call."""
        if self._thread is None:
            self._thread = Thread(target=self._work, name="slackwater-log", daemon=True)
            self._thread.start()
        future = asyncio.get_running_loop().create_future()
        self._calls.put((call, future))
        await future

    def end(self) -> None:
        """Wait for the calls under way and let the thread go."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (taken := self._calls.get()) is not None:
            call, future = taken
            error: BaseException | None = None
            try:
                call()
            except BaseException as raised:
                error = raised
            try:
                future.get_loop().call_soon_threadsafe(_settle, future, error)
            except RuntimeError:
                # The loop is closed: nobody waits any more.
                return


def _settle(future: "asyncio.Future[None]", error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
