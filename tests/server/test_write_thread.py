"""The thread of writes: calls in order, their errors to their callers, and no call is lost with its caller."""

import asyncio
import threading
from functools import partial

import pytest

from slackwater.server.write_thread import WriteThread


async def test_calls_run_in_order_on_one_other_thread() -> None:
    thread, ran = WriteThread(), list[tuple[int, int]]()

    def note(nth: int) -> None:
        ran.append((nth, threading.get_ident()))

    await asyncio.gather(*(thread.run(partial(note, nth)) for nth in range(50)))
    assert [nth for nth, _ in ran] == list(range(50))
    [ident] = {ident for _, ident in ran}
    assert ident != threading.get_ident()
    thread.end()
    thread.end()


async def test_an_error_is_raised_to_its_caller_and_the_next_call_runs() -> None:
    thread, ran = WriteThread(), threading.Event()

    def fail() -> None:
        raise ValueError("of this call")

    with pytest.raises(ValueError, match="of this call"):
        await thread.run(fail)
    await thread.run(ran.set)
    assert ran.is_set()
    thread.end()


async def test_a_caller_that_is_cancelled_ends_no_call() -> None:
    thread, go, ran = WriteThread(), threading.Event(), threading.Event()

    def wait() -> None:
        go.wait(20)

    first = asyncio.create_task(thread.run(wait))
    second = asyncio.create_task(thread.run(ran.set))
    await asyncio.sleep(0)
    for one in (first, second):
        one.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    go.set()
    await thread.run(lambda: None)
    assert ran.is_set()
    thread.end()
