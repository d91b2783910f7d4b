"""Forked task: a function over the memory of this process as it is now, run in a copy of the process.

Design
    A fork sees all memory as of one moment, and the system copies only the pages that one of the two changes later.
    So the state of a node is written down as of one position, with as much work as that takes, on another core, while
    the event loop goes on: it is held for the fork alone, some 20 milliseconds for each gigabyte.

    The copy has one thread, the one that forked; the others, and whatever locks they held, are gone. Its function
    therefore works on state of the event loop alone: no logging, no database, no network. The copy closes all
    descriptors it was born with, so it holds neither ports nor locks when this process ends, and ends with it. A copy
    that does not finish within a limit is killed: a lock that nobody can release costs a snapshot and nothing else.
"""

import asyncio
import gc
import os
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from slackwater.core.errors import StoreError
from slackwater.deployment.parent_death import end_with_parent

LIMIT_SECONDS = 600.0
_LONGEST_REASON = 2_000
_MOST_DESCRIPTORS = 2**31 - 1
_NICENESS = 5
"""The copy steps back where the event loop wants the core."""


async def run_forked(task: Callable[[], None], seconds: float = LIMIT_SECONDS) -> None:
    """Run a task in a fork of this process; raises `StoreError` where it fails, and `OSError` where nothing forks."""
    reading, writing = os.pipe()
    try:
        parent = os.getpid()
        with warnings.catch_warnings():
            # Newer Pythons warn of locks held by other threads; the module says why none is asked for.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if child == 0:
        _run(task, writing, parent)
    os.close(writing)
    answer = asyncio.ensure_future(asyncio.to_thread(_read, reading))
    try:
        async with asyncio.timeout(seconds):
            why = await asyncio.shield(answer)
    except TimeoutError:
        why = f"it was not finished within {seconds:g} s"
    finally:
        # The copy is waited for only now, so that the number is still its own.
        if not answer.done():
            os.kill(child, signal.SIGKILL)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
    if status != 0:
        raise StoreError(why or f"the process that was to do it ended with {os.waitstatus_to_exitcode(status)}")


def _read(answer: int) -> str:
    """What the copy says of a failure; it says nothing and ends where there is none."""
    with os.fdopen(answer, "rb") as said:
        return said.read().decode(errors="replace")


def _run(task: Callable[[], None], answer: int, parent: int) -> NoReturn:
    """In the copy: run the task and end, whatever happens."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        end_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        # A collection would write to every page and so copy it.
        gc.disable()
        os.closerange(3, answer)
        os.closerange(answer + 1, _MOST_DESCRIPTORS)
        with suppress(OSError):
            os.nice(_NICENESS)
        task()
        status = 0
    except BaseException as error:
        with suppress(OSError):
            os.write(answer, str(error).encode()[:_LONGEST_REASON])
    finally:
        os._exit(status)
