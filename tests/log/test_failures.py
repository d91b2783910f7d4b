"""Disks that are full or broken: nothing is acknowledged, nothing torn is left under later records."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slackwater.core import Column, DataType, Instant, LogError, Origin, Position, TableSchema, Update, disk
from slackwater.core.arrow import to_batch
from slackwater.log import LocalLog, Log, TableDefined, Updates, verify

QUOTES = TableSchema("quotes", (Column("symbol", DataType.TEXT, nullable=False),), key=("symbol",))


def updates(first: int, rows: int) -> Updates:
    numbers = range(first, first + rows)
    return Updates(
        "quotes", to_batch(QUOTES, [Update("quotes", (f"S{n}",), Instant(n), Origin("test", n)) for n in numbers])
    )


def sequences(log: Log, start: int = 0) -> list[int]:
    found: list[int] = []
    for entry in log.read(Position(max(start, log.start))):
        assert isinstance(entry.record, Updates)
        found += entry.record.batch.column("$seq").to_pylist()
    return found


class Failing:
    """Makes a function of `disk` fail, after having done part of its work or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    @contextmanager
    def at(self, name: str, error: int, times: int = 1, after: int = 0, half: bool = False) -> Iterator[None]:
        plain: Callable[..., None] = getattr(disk, name)
        left, passed = times, 0

        def failing(*given: object) -> None:
            nonlocal left, passed
            passed += 1
            if passed <= after or left == 0:
                return plain(*given)
            left -= 1
            if half:
                descriptor, pieces, offset = given
                assert isinstance(pieces, list)
                joined = b"".join(pieces)
                plain(descriptor, [joined[: len(joined) * 2 // 3]], offset)
            raise OSError(error, "injected")

        with self._monkeypatch.context() as patch:
            patch.setattr(disk, name, failing)
            yield


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    return Failing(monkeypatch)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("half", [False, True])
def test_a_failed_write_is_taken_back_and_the_log_goes_on(
    tmp_path: Path, failing: Failing, error: int, half: bool
) -> None:
    with LocalLog(tmp_path) as log, LocalLog(tmp_path, read_only=True) as reader:
        log.append([updates(0, 10)])
        with failing.at("write", error, half=half), pytest.raises(LogError, match="nothing of it was kept"):
            log.append([updates(10, 10), TableDefined(QUOTES), updates(20, 10)])
        assert log.end == reader.end == 10
        assert log.catalog().tables == ()
        assert log.append([updates(10, 5)]) == 15
        assert sequences(log) == sequences(reader) == list(range(15))
    with LocalLog(tmp_path) as log:
        assert log.recovered_bytes == 0
        assert sequences(log) == list(range(15))
    assert verify(tmp_path).sound


def test_after_a_failed_flush_nothing_is_taken_until_the_log_is_opened_again(tmp_path: Path, failing: Failing) -> None:
    with LocalLog(tmp_path) as log, LocalLog(tmp_path, read_only=True) as reader:
        log.append([updates(0, 10)])
        with failing.at("sync", errno.EIO), pytest.raises(LogError, match="may have been kept"):
            log.append([updates(10, 10)])
        with pytest.raises(LogError, match="open it again"):
            log.append([updates(10, 10)])
        with pytest.raises(LogError, match="open it again"):
            log.drop_before(Position(5))
        assert log.end == reader.end == 10
        assert sequences(log) == sequences(reader) == list(range(10))
    with LocalLog(tmp_path) as log:
        assert sequences(log) == list(range(10))
        log.append([updates(10, 10)])
        assert sequences(log) == list(range(20))


def test_a_failed_write_that_cannot_be_taken_back_stops_the_log(tmp_path: Path, failing: Failing) -> None:
    with LocalLog(tmp_path) as log:
        log.append([updates(0, 10)])
        with (
            failing.at("write", errno.ENOSPC, half=True),
            failing.at("truncate", errno.EIO),
            pytest.raises(LogError, match="may have been kept"),
        ):
            log.append([updates(10, 10)])
        with pytest.raises(LogError, match="could not be taken back"):
            log.append([updates(10, 10)])
        assert sequences(log) == list(range(10))
    with LocalLog(tmp_path) as log:
        assert log.recovered_bytes > 0
        assert log.append([updates(10, 1)]) == 11
        assert sequences(log) == list(range(11))


@pytest.mark.parametrize(
    ("name", "goes_on"), [("write", True), ("sync", True), ("rename", True), ("sync_folder", False)]
)
def test_a_segment_that_cannot_be_begun_loses_nothing(
    tmp_path: Path, failing: Failing, name: str, goes_on: bool
) -> None:
    with LocalLog(tmp_path, segment_bytes=1) as log:
        log.append([updates(0, 10)])
        with failing.at(name, errno.ENOSPC), pytest.raises(LogError, match="injected"):
            log.append([updates(10, 10)])
        assert log.end == 10
        assert sequences(log) == list(range(10))
        if goes_on:
            assert log.append([updates(10, 3)]) == 13
        else:
            with pytest.raises(LogError, match="open it again"):
                log.append([updates(10, 3)])
    with LocalLog(tmp_path, segment_bytes=1) as log:
        log.append([updates(log.end, 4)])
        assert sequences(log) == list(range(log.end))
    assert verify(tmp_path).sound


def test_a_mark_that_cannot_be_moved_acknowledges_nothing(tmp_path: Path, failing: Failing) -> None:
    with LocalLog(tmp_path) as log:
        log.append([updates(0, 10)])
        with failing.at("write", errno.EIO, after=1), pytest.raises(LogError, match="may have been kept"):
            log.append([updates(10, 10)])
        assert log.end == 10
    with LocalLog(tmp_path) as log:
        assert sequences(log) == list(range(log.end))


def test_a_drop_that_fails_half_way_leaves_a_log_without_holes(
    tmp_path: Path, failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, removed = Path.unlink, 0

    def reluctant(path: Path, missing_ok: bool = False) -> None:
        nonlocal removed
        removed += 1
        if removed > 2:
            raise OSError(errno.EIO, "injected")
        plain(path, missing_ok)

    with LocalLog(tmp_path, segment_bytes=1) as log:
        for n in range(0, 60, 10):
            log.append([updates(n, 10)])
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", reluctant)
            with pytest.raises(LogError, match="could not be dropped"):
                log.drop_before(Position(50))
    with LocalLog(tmp_path) as log:
        assert (log.start, log.end) == (20, 60)
        assert sequences(log) == list(range(20, 60))


def test_an_append_interrupted_while_it_waits_is_not_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with LocalLog(tmp_path) as log:
        writer = log._writer
        assert writer is not None
        writer._busy = True  # as if another thread were writing
        with monkeypatch.context() as patch:
            patch.setattr(writer._turn, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append([updates(0, 10)])
        writer._busy = False
        assert log.append([updates(0, 3)]) == 3
        assert sequences(log) == [0, 1, 2]


def test_an_interrupted_append_stops_the_log_and_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    with LocalLog(tmp_path) as log:
        log.append([updates(0, 10)])
        with monkeypatch.context() as patch:
            patch.setattr(disk, "sync", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append([updates(10, 10)])
        with pytest.raises(LogError, match="KeyboardInterrupt"):
            log.append([updates(10, 10)])
        assert log.end == 10
    with LocalLog(tmp_path) as log:
        assert sequences(log) == list(range(log.end))
