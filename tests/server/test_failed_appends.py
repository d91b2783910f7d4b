"""Failed appends: the error for their senders, the memory of the intake, and the end of the queue."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from slackwater.client.address import address
from slackwater.client.failures import Refused
from slackwater.client.rest import Rest
from slackwater.core import Column, DataType, TableSchema
from slackwater.core.arrival import Arrival, RequestKey
from slackwater.core.clock import ManualClock
from slackwater.core.errors import LogAway, LogError, LogFull, LogLocked, OutcomeUnknown, WriterBroken
from slackwater.core.types import Position
from slackwater.intake import IntakeReceipt
from slackwater.log import Entry, Log, Record, TableDefined
from slackwater.log.memory import MemoryLog
from slackwater.server.group_commit import Change, WriteQueue

TABLE = TableSchema("items", (Column("item", DataType.BIGINT, nullable=False),), key=("item",))


class FailingLog(MemoryLog):
    """A log that raises what it is told to, before an append or after it, and that may not be readable."""

    before: LogError | None = None
    after: LogError | None = None
    unreadable: LogError | None = None

    def append(self, records: Sequence[Record]) -> Position:
        if self.before is not None:
            raise self.before
        end = super().append(records)
        if self.after is not None:
            raise self.after
        return end

    def read(self, start: Position, end: Position | None = None) -> Iterator[Entry]:
        if self.unreadable is not None:
            raise self.unreadable
        return super().read(start, end)


def rows(*numbers: int) -> Change[IntakeReceipt]:
    batch = pa.RecordBatch.from_pydict({"item": pa.array(numbers, pa.int64()), "$seq": pa.array(numbers, pa.int64())})
    return lambda target: target.intake.take([Arrival("items", "sender", batch, "test")])


def under_key(key: str, number: int) -> Change[IntakeReceipt]:
    """A request with one row and an idempotency key."""
    batch = pa.RecordBatch.from_pydict({"item": pa.array([number], pa.int64())})
    request = RequestKey(key, str(number).encode())
    return lambda target: target.intake.take([Arrival("items", "sender", batch, "test")], request)


def opened(log: Log, memory: Path | None = None) -> tuple[WriteQueue, "asyncio.Task[None]"]:
    log.append([TableDefined(TABLE)])
    queue = WriteQueue(log, ManualClock(), memory, 1000, lambda: None)
    return queue, asyncio.create_task(queue.run())


async def ended(queue: WriteQueue, writing: "asyncio.Task[None]") -> None:
    await queue.close()
    await writing
    queue.finish()


@pytest.mark.parametrize("kept", [False, True])
async def test_an_unknown_outcome_is_settled_by_repeating(kept: bool) -> None:
    with FailingLog() as log:
        queue, writing = opened(log)
        away = type("Away", (LogAway, OutcomeUnknown), {})("the servers do not answer")
        log.before, log.after = (None, away) if kept else (away, None)
        with pytest.raises(OutcomeUnknown, match="Send it again with the same numbers"):
            await queue.submit(rows(0, 1))
        assert queue.failure is None
        assert queue.trouble is not None
        log.before = log.after = None
        receipt = await queue.submit(rows(0, 1))
        assert (receipt.accepted, receipt.repeats) == ((0, 2) if kept else (2, 0))
        await queue.submit(rows(2))
        assert not queue.trouble
        await ended(queue, writing)


async def test_rows_that_were_not_kept_are_no_repeats_although_the_log_could_not_be_read_back() -> None:
    with FailingLog() as log:
        queue, writing = opened(log)
        await queue.submit(rows(0, 1))
        log.before, log.unreadable = LogFull("no space; nothing of it was kept"), LogAway("the servers do not answer")
        with pytest.raises(LogFull):
            await queue.submit(rows(2, 3))
        log.before = None
        with pytest.raises(LogError, match="nothing of this was kept"):
            await queue.submit(rows(2, 3))
        log.unreadable = None
        assert (await queue.submit(rows(2, 3))).accepted == 2
        await ended(queue, writing)


@pytest.mark.parametrize("fatal", [False, True])
async def test_a_refusal_for_the_sake_of_what_was_not_kept_is_not_told(fatal: bool) -> None:
    """A group where the key of the first request refuses the second one: neither was kept, and both may come again."""
    with FailingLog() as log:
        queue, writing = opened(log)
        log.before = WriterBroken("flushing failed") if fatal else LogFull("no space; nothing of it was kept")
        sent = [asyncio.create_task(queue.submit(under_key("a", number))) for number in (1, 2)]
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        assert [type(one) for one in outcomes] == [OutcomeUnknown if fatal else LogFull] * 2
        if fatal:
            with pytest.raises(WriterBroken):
                await writing
            return
        log.before = None
        assert (await queue.submit(under_key("a", 2))).accepted == 1
        await ended(queue, writing)


async def test_a_memory_that_cannot_be_saved_fails_no_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.server.group_commit.SAVE_EVERY", 1)
    with FailingLog() as log:
        queue, writing = opened(log, tmp_path / "gone" / "memory")
        assert (await queue.submit(rows(0, 1))).accepted == 2
        await ended(queue, writing)


@pytest.mark.parametrize(
    ("error", "told"),
    [(WriterBroken("flushing failed"), OutcomeUnknown), (LogLocked("another writer took it over"), LogLocked)],
)
async def test_a_writer_that_cannot_go_on_ends_the_queue_and_keeps_nothing_in_the_memory(
    tmp_path: Path, error: LogError, told: type[LogError]
) -> None:
    memory = tmp_path / "memory"
    with FailingLog() as log:
        queue, writing = opened(log, memory)
        before = memory.read_bytes()
        log.before = error
        sent = [asyncio.create_task(queue.submit(rows(number))) for number in range(3)]
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        assert all(isinstance(one, told) for one in outcomes)
        with pytest.raises(type(error)):
            await writing
        with pytest.raises(LogError, match="nothing of this was kept"):
            await queue.submit(rows(4))
        queue.finish()
        assert memory.read_bytes() == before, "what was not kept is not remembered as taken"


@pytest.mark.parametrize(("code", "calls"), [("outcome_unknown", 1), ("full", 2)])
async def test_a_request_with_an_unknown_outcome_is_only_repeated_where_that_does_no_harm(
    code: str, calls: int
) -> None:
    asked = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        return httpx.Response(503, json={"error": code, "message": "see"}) if asked == 1 else httpx.Response(200)

    rest = Rest([address("http://127.0.0.1:1")], None, 5.0, lambda: 1.0)
    rest._http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    with pytest.raises(Refused) if code == "outcome_unknown" else nullcontext():
        await rest.request("DELETE", "/v1/subscriptions/1", safe=False)
    assert asked == calls
    await rest.close()
