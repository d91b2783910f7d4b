"""What a log on JetStream meets beyond the contract: servers that are killed, writers that come back, other streams."""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from slackwater.core import Column, DataType, Instant, LogCorrupt, LogError, LogLocked, Origin, Position, TableSchema
from slackwater.core.arrow import to_batch
from slackwater.core.types import Position as At
from slackwater.core.update import Update
from slackwater.log import LocalLog, Log, TableDefined, Updates, open_log
from slackwater.log.jetstream import JetStreamLog
from slackwater.log.jetstream_stream import AppendUnanswered, StreamUnreachable
from tests.support.nats_server import NatsServer

QUOTES = TableSchema(
    "quotes", (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE)), key=("symbol",)
)
numbers = itertools.count(1)


def updates(first: int, rows: int = 1, width: int = 1) -> Updates:
    return Updates(
        "quotes",
        to_batch(
            QUOTES,
            [
                Update("quotes", (f"{n}" * width, n / 2), Instant(n), Origin("test", n))
                for n in range(first, first + rows)
            ],
        ),
    )


def sequences(log: Log) -> list[int]:
    return [
        sequence
        for entry in log.read(log.start)
        if isinstance(entry.record, Updates)
        for sequence in entry.record.batch.column("$seq").to_pylist()
    ]


def address(server: NatsServer) -> str:
    return f"{server.url}/log-{next(numbers)}"


def with_client(server: NatsServer, work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        client = await nats.connect(server.url)
        await work(client)
        await client.close()

    asyncio.run(run())


def test_the_address_says_which_log(nats_server: NatsServer, tmp_path: Path) -> None:
    with open_log(tmp_path / "log") as local, open_log(str(tmp_path / "other")) as other:
        assert isinstance(local, LocalLog)
        assert isinstance(other, LocalLog)
    with open_log(address(nats_server)) as log:
        assert isinstance(log, JetStreamLog)
        assert log.append([TableDefined(QUOTES)]) == 1


def test_a_record_larger_than_a_message_may_be_is_kept_whole(nats_server: NatsServer) -> None:
    place = address(nats_server)
    large = updates(0, 20_000, width=60)
    with JetStreamLog(place) as log:
        assert large.batch.nbytes > 3 * (1 << 20)
        log.append([updates(0, 3), large, updates(20_000, 2)])
    with JetStreamLog(place, read_only=True) as log:
        entries = list(log.read(Position(0)))
        assert [entry.rows for entry in entries] == [3, 20_000, 2]
        assert isinstance(entries[1].record, Updates)
        assert entries[1].record.batch.equals(large.batch)


def test_what_a_crash_left_of_a_block_is_passed_over(nats_server: NatsServer) -> None:
    place = address(nats_server)
    with JetStreamLog(place, piece_bytes=300) as log:
        log.append([updates(0)])
        stored, left = log._stream.store, [3]

        def cut_off(subject: str, payload: bytes, after: int) -> int:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return stored(subject, payload, after)

        log._stream.store = cut_off  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            log.append([updates(1, 50)])
        with JetStreamLog(place, read_only=True) as reader:
            assert (reader.end, sequences(reader)) == (1, [0])
        # The same writer goes on, and so does the next.
        log._stream.store = stored  # type: ignore[method-assign]
        assert log.append([updates(1, 2)]) == 3
    with JetStreamLog(place) as log:
        assert log.append([updates(3, 4)]) == 7
        assert sequences(log) == list(range(7))


def test_a_writer_that_was_thought_dead_is_fenced_off(nats_server: NatsServer) -> None:
    place = address(nats_server)
    with JetStreamLog(place) as first:
        first.append([updates(0)])
        # It answers nobody any more, as if the network had failed it.
        first._stream._wait(_fall_silent(first))
        with JetStreamLog(place) as second:
            second.append([updates(1)])
            with pytest.raises(LogLocked, match="another writer"):
                first.append([updates(100)])
            with pytest.raises(LogLocked, match="another writer"):
                first.append([updates(101)])
            second.append([updates(2)])
            assert sequences(second) == [0, 1, 2]


async def _fall_silent(log: JetStreamLog) -> None:
    client = log._stream._client
    assert client is not None
    for subscription in list(client._subs.values()):
        if subscription.subject.startswith("slackwater.writer."):
            await subscription.unsubscribe()
    await client.flush()


def test_what_was_stored_and_not_acknowledged_is_not_stored_twice(nats_server: NatsServer) -> None:
    place = address(nats_server)
    with JetStreamLog(place, piece_bytes=300) as log:
        log.append([updates(0)])
        request, losing = log._stream._request, itertools.cycle((True, False, False))

        async def lossy(subject: str, payload: bytes, headers: dict[str, str] | None = None) -> Msg:
            answer = await request(subject, payload, headers)
            if headers is not None and next(losing):
                raise StreamUnreachable("the answer was lost")
            return answer

        log._stream._request = lossy  # type: ignore[method-assign]
        for n in range(1, 40, 3):
            assert log.append([updates(n, 3)]) == n + 3
        assert sequences(log) == list(range(40))
    with JetStreamLog(place, read_only=True) as reader:
        assert sequences(reader) == list(range(40))


def test_of_two_writers_that_come_at_once_one_is_refused(nats_server: NatsServer) -> None:
    place = address(nats_server)
    JetStreamLog(place).close()
    for _ in range(10):
        opened: list[JetStreamLog] = []
        refused: list[LogLocked] = []
        gate = threading.Barrier(3)

        def come(opened: list[JetStreamLog], refused: list[LogLocked], gate: threading.Barrier) -> None:
            gate.wait()
            try:
                opened.append(JetStreamLog(place))
            except LogLocked as error:
                refused.append(error)

        threads = [threading.Thread(target=come, args=(opened, refused, gate)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(opened), len(refused)) == (1, 2)
        opened[0].append([updates(0)])
        opened[0].close()


def test_dropping_that_a_crash_interrupted_is_finished(nats_server: NatsServer) -> None:
    place = address(nats_server)
    with JetStreamLog(place) as log:
        log.append([TableDefined(QUOTES)])
        for n in range(20):
            log.append([updates(n)])
        purge = log._stream.purge
        log._stream.purge = lambda *_, **__: None  # type: ignore[method-assign]
        assert log.drop_before(Position(11)) == 11
        assert sequences(log) == list(range(10, 20))
        log._stream.purge = purge  # type: ignore[method-assign]
    with JetStreamLog(place, read_only=True) as reader:
        assert (reader.start, reader.end) == (11, 21)
        assert reader.catalog(Position(11)).tables == (QUOTES,)
    with JetStreamLog(place) as log:
        assert sequences(log) == list(range(10, 20))
        first = log._stream.next(1, "log.>")
        assert first is not None
        assert first.payload[8:16] == (11).to_bytes(8, "little")


def test_what_is_missing_is_not_passed_over(nats_server: NatsServer) -> None:
    place = address(nats_server)
    with JetStreamLog(place) as log:
        for n in range(9):
            log.append([updates(n)])
        name = log._stream.name

    async def lose(client: Client) -> None:
        stream = client.jetstream()
        config = (await stream.stream_info(name)).config
        held = [await stream.get_msg(name, seq) for seq in range(1, 11)]
        await stream.purge_stream(name)
        for nth, message in enumerate(held):
            if nth != 5:
                await stream.publish(message.subject or "", message.data or b"")
        assert config.deny_delete

    with_client(nats_server, lose)
    with JetStreamLog(place, read_only=True) as log, pytest.raises(LogCorrupt, match="missing"):
        sequences(log)


def test_what_the_server_loses_to_a_damaged_file_is_noticed(own_nats_server: NatsServer) -> None:
    place = address(own_nats_server)
    with JetStreamLog(place) as log:
        for n in range(10):
            log.append([updates(n * 10, 10)])
    with JetStreamLog(place, read_only=True) as reader:
        assert reader.end == 100
        own_nats_server.kill()
        (file,) = (own_nats_server.folder / "store").rglob(f"streams/{reader._stream.name}/msgs/1.blk")
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        own_nats_server.start()
        with pytest.raises(LogCorrupt, match="had been acknowledged"):
            _ = reader.end
    for read_only in (True, False):
        with pytest.raises(LogCorrupt, match="everything before 100 had been acknowledged"):
            JetStreamLog(place, read_only=read_only)


def test_a_stream_of_somebody_else_or_that_forgets_is_refused(nats_server: NatsServer) -> None:
    async def make(client: Client) -> None:
        stream = client.jetstream()
        await stream.add_stream(name="others", subjects=["others.>"])
        await stream.add_stream(name="forgetful", subjects=["slackwater.log.forgetful.>"], max_age=60)

    with_client(nats_server, make)
    with pytest.raises(LogError, match="belongs to something else"):
        JetStreamLog(f"{nats_server.url}/others")
    with pytest.raises(LogError, match="forgets by itself"):
        JetStreamLog(f"{nats_server.url}/forgetful")
    with pytest.raises(LogError, match="there is no log"):
        JetStreamLog(f"{nats_server.url}/nothing", read_only=True)
    with pytest.raises(LogError, match="name"):
        JetStreamLog(nats_server.url)


def test_no_server_is_said_at_once() -> None:
    with pytest.raises(LogError, match="no NATS server answers"):
        JetStreamLog("nats://127.0.0.1:1/log", patience=5)


def test_an_append_that_nobody_acknowledged_says_so_and_the_log_goes_on(own_nats_server: NatsServer) -> None:
    place = address(own_nats_server)
    with JetStreamLog(place, patience=0.5) as log:
        log.append([updates(0)])
        own_nats_server.kill()
        with pytest.raises(AppendUnanswered, match="may have been kept"):
            log.append([updates(1)])
        assert log.end == 1
        own_nats_server.start()
        # It may have been kept after all, and who appends then is told so; so whoever is careful looks at the end.
        _until(lambda: log.end == 2 or _appends(log, updates(1)))
        assert sequences(log) == [0, 1]
        log.append([updates(2)])
    with JetStreamLog(place) as log:
        assert sequences(log) == [0, 1, 2]


def _appends(log: JetStreamLog, record: Updates) -> bool:
    try:
        log.append([record])
    except LogError:
        return False
    return True


def _until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def _killed_under_load(server: NatsServer, kills: int) -> None:
    """Appends wait for the server; every one that was acknowledged is there once, in order, and nothing else."""
    place = address(server)
    acknowledged: list[int] = []
    ends: list[At] = []
    failures: list[BaseException] = []
    stopping = threading.Event()

    def load(log: JetStreamLog) -> None:
        number = 0
        try:
            while not stopping.is_set():
                rows = 1 + number % 7
                ends.append(log.append([updates(number, rows)]))
                acknowledged.extend(range(number, number + rows))
                number += rows
        except BaseException as error:
            failures.append(error)

    with JetStreamLog(place, patience=30, piece_bytes=500) as log, JetStreamLog(place, read_only=True) as reader:
        thread = threading.Thread(target=load, args=(log,))
        thread.start()
        for _ in range(kills):
            before = len(acknowledged)
            _until(lambda before=before: len(acknowledged) > before + 50 or bool(failures))  # type: ignore[misc]
            server.kill()
            time.sleep(0.2)
            server.start()
        before = len(acknowledged)
        _until(lambda: len(acknowledged) > before + 50 or bool(failures))
        stopping.set()
        thread.join()
        assert failures == []
        assert ends[-1] == log.end == reader.end == len(acknowledged)
        assert sequences(reader) == acknowledged == list(range(len(acknowledged)))
    with JetStreamLog(place) as log:
        assert sequences(log) == acknowledged


def test_a_killed_server_loses_nothing_and_doubles_nothing(own_nats_server: NatsServer) -> None:
    _killed_under_load(own_nats_server, kills=1)


@pytest.mark.slow
def test_a_server_killed_ten_times_loses_nothing_and_doubles_nothing(own_nats_server: NatsServer) -> None:
    _killed_under_load(own_nats_server, kills=10)


def test_a_writer_killed_with_the_server_keeps_at_most_the_append_in_flight(own_nats_server: NatsServer) -> None:
    place = address(own_nats_server)
    acknowledged = 0
    log = JetStreamLog(place, patience=0.3)
    killer = threading.Timer(0.3, own_nats_server.kill)
    killer.start()
    while _appends(log, updates(acknowledged)):
        acknowledged += 1
    killer.join()
    log.close()
    own_nats_server.start()
    with JetStreamLog(place) as again:
        found = sequences(again)
    assert found in (list(range(acknowledged)), list(range(acknowledged + 1)))
    assert acknowledged > 10
