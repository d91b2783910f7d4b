"""What opening a log does after a crash, and after damage: the first is repaired, the second never hidden."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.core import (
    Column,
    DataType,
    Instant,
    LogCorrupt,
    LogError,
    Origin,
    Position,
    TableSchema,
    Update,
    disk,
)
from slackwater.core.arrow import to_batch
from slackwater.log import LocalLog, Log, Updates, verify
from slackwater.log.lock import WriterLock
from slackwater.log.mark import DurableMark, read_mark

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


def last_file(folder: Path) -> Path:
    return max(folder.glob("*.segment"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten durable appends in three segments, then in the next one of three records that a power cut may have cut."""
    folder = tmp_path_factory.mktemp("written") / "log"
    with LocalLog(folder, segment_bytes=5000) as log:
        for n in range(0, 100, 10):
            log.append([updates(n, 10)])
    mark = (folder / "durable").read_bytes()
    with LocalLog(folder, segment_bytes=1 << 20) as log:
        (folder / "size").write_text(str(last_file(folder).stat().st_size))
        log.append([updates(100, 30), updates(130, 40), updates(170, 30)])
    (folder / "durable").write_bytes(mark)
    assert len(list(folder.glob("*.segment"))) == 4
    return folder


def copied(written: Path, folder: Path) -> tuple[Path, int]:
    shutil.rmtree(folder / "log", ignore_errors=True)
    shutil.copytree(written, folder / "log")
    return folder / "log", int((written / "size").read_text())


def test_complete_records_without_an_acknowledgement_are_kept(written: Path, tmp_path: Path) -> None:
    folder, _ = copied(written, tmp_path)
    with LocalLog(folder) as log:
        assert log.recovered_bytes == 0
        assert sequences(log) == list(range(200))


def test_what_is_kept_is_flushed_before_it_counts(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = copied(written, tmp_path)
    synced: list[int] = []
    sync = disk.sync

    def noted(descriptor: int) -> None:
        if not synced:
            assert read_mark(folder) == 100
        synced.append(descriptor)
        sync(descriptor)

    monkeypatch.setattr(disk, "sync", noted)
    with LocalLog(folder) as log:
        assert synced, "the segment that was there, then the one that begins the incarnation"
        assert log.end == read_mark(folder) == 200


def test_a_reader_does_not_go_back_while_a_writer_is_starting(written: Path, tmp_path: Path) -> None:
    folder, _ = copied(written, tmp_path)
    with LocalLog(folder, read_only=True) as reader:
        assert reader.end == 200
        starting = WriterLock(folder)  # has not moved the mark yet
        assert read_mark(folder) == 100
        assert reader.end == 200
        with LocalLog(folder, read_only=True) as other:
            assert other.end == 100
        (folder / "durable").unlink()
        with LocalLog(folder, read_only=True) as other:
            assert other.end == int(last_file(folder).name[:20])
        starting.release()


def test_a_reader_that_finds_only_newer_segments_than_the_mark_looks_again(written: Path, tmp_path: Path) -> None:
    folder, _ = copied(written, tmp_path)
    DurableMark(folder, Position(5)).close()
    for file in sorted(folder.glob("*.segment"))[:-1]:
        file.unlink()
    starting = WriterLock(folder)
    with pytest.raises(LogError, match="changes faster"):
        LocalLog(folder, read_only=True)
    starting.release()


def test_a_record_in_the_place_of_another_is_noticed(tmp_path: Path) -> None:
    with LocalLog(tmp_path) as log:
        log.append([updates(0, 10)])
        start = last_file(tmp_path).stat().st_size
        log.append([updates(10, 10)])
        middle = last_file(tmp_path).stat().st_size
        log.append([updates(20, 10)])
    file = last_file(tmp_path)
    content = file.read_bytes()
    one, other = content[start:middle], content[middle:]
    assert len(one) == len(other)
    file.write_bytes(content[:start] + other + one)
    with pytest.raises(LogCorrupt, match="a record of position 20 stands here"):
        LocalLog(tmp_path)


@given(share=st.floats(0, 1), zeros=st.sampled_from([0, 1, 4096, 100_000]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_unfinished_write_is_cut_off(written: Path, tmp_path: Path, share: float, zeros: int) -> None:
    folder, durable = copied(written, tmp_path)
    file = last_file(folder)
    kept = durable + int((file.stat().st_size - durable) * share)
    with file.open("r+b") as stream:
        stream.truncate(kept)
        stream.truncate(kept + zeros)
    with LocalLog(folder, read_only=True) as reader:
        before = sequences(reader)
    with LocalLog(folder) as log:
        found = sequences(log)
        assert found == before
        assert len(found) in (100, 130, 170, 200)
        assert found == list(range(len(found)))
        if len(found) == 100:
            # Nothing of it is left: the segment of this opening stands in its place, under the same name.
            assert log.recovered_bytes == kept + zeros - durable
        else:
            assert file.stat().st_size == kept + zeros - log.recovered_bytes
        log.append([updates(log.end, 5)])
    with LocalLog(folder) as log:
        assert log.recovered_bytes == 0
        assert sequences(log) == list(range(len(found) + 5))


@given(lost=st.lists(st.integers(0, 30), max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_power_cut_may_lose_any_part_of_what_was_not_flushed(written: Path, tmp_path: Path, lost: list[int]) -> None:
    """Parts of one group reach the disk in any order, so a whole record may stand behind a torn one."""
    folder, durable = copied(written, tmp_path)
    file = last_file(folder)
    content = bytearray(file.read_bytes())
    for sector in lost:
        start = durable + sector * 512
        content[start : start + 512] = bytes(len(content[start : start + 512]))
    file.write_bytes(content)
    with LocalLog(folder) as log:
        found = sequences(log)
        assert len(found) in (100, 130, 170, 200)
        assert found == list(range(len(found)))
        assert (len(found) == 200) == (log.recovered_bytes == 0)
    assert verify(folder).sound


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_changed_byte_of_what_was_durable_is_noticed(written: Path, tmp_path: Path, data: st.DataObject) -> None:
    folder, durable = copied(written, tmp_path)
    file = data.draw(st.sampled_from(sorted(folder.glob("*.segment"))))
    length = durable if file == last_file(folder) else file.stat().st_size
    content = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, length - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    if data.draw(st.booleans(), "without the mark"):
        # Later records still prove that these had been durable.
        (folder / "durable").unlink()
    report = verify(folder)
    assert not report.sound
    assert report.damage[0].file == file.name
    assert report.damage[0].offset <= at
    with pytest.raises((LogCorrupt, LogError)), LocalLog(folder) as log:
        sequences(log)
    with pytest.raises((LogCorrupt, LogError)), LocalLog(folder, read_only=True) as log:
        sequences(log)
    assert file.read_bytes() == bytes(content), "damage must be left as it is"


def test_damage_of_the_very_last_record_is_not_taken_for_a_torn_one(tmp_path: Path) -> None:
    with LocalLog(tmp_path) as log:
        log.append([updates(0, 10)])
        log.append([updates(10, 10)])
    file = last_file(tmp_path)
    content = bytearray(file.read_bytes())
    content[-40] ^= 1
    file.write_bytes(content)
    with pytest.raises(LogCorrupt, match=r"damaged at byte .*position 10"):
        LocalLog(tmp_path)
    assert verify(tmp_path).damage[0].position == 10
    # The mark is what proves that the record had been acknowledged; removing it accepts the loss.
    (tmp_path / "durable").unlink()
    with LocalLog(tmp_path) as log:
        assert log.recovered_bytes > 0
        assert sequences(log) == list(range(10))


def test_a_file_that_lost_acknowledged_records_is_refused(tmp_path: Path) -> None:
    with LocalLog(tmp_path) as log:
        log.append([updates(0, 10)])
        size = last_file(tmp_path).stat().st_size
        log.append([updates(10, 10)])
    with last_file(tmp_path).open("r+b") as stream:
        stream.truncate(size)
    for read_only in (False, True):
        with pytest.raises(LogCorrupt, match="ends at position 10, but everything before 20"):
            LocalLog(tmp_path, read_only=read_only)
    assert not verify(tmp_path).sound


def test_text_that_looks_like_a_frame_is_not_taken_for_one(tmp_path: Path) -> None:
    """Whoever sends rows could put bytes of a frame into one; they do not know the segment's salt."""
    from slackwater.log.frame import head_bytes, prepare
    from slackwater.log.records import encode

    with LocalLog(tmp_path) as log:
        log.append([updates(0, 10)])
    forged = head_bytes(prepare(encode(updates(0, 1))), Position(90), Position(80), salt=0)
    file = last_file(tmp_path)
    size = file.stat().st_size
    with file.open("ab") as stream:
        stream.write(b"torn   " * 8 + forged)
    with LocalLog(tmp_path) as log:
        assert log.recovered_bytes == 56 + len(forged)
    assert file.stat().st_size == size


@pytest.mark.parametrize("nth", [0, 1, 2])
def test_a_missing_segment_is_noticed_unless_it_is_the_oldest(written: Path, tmp_path: Path, nth: int) -> None:
    folder, _ = copied(written, tmp_path)
    files = sorted(folder.glob("*.segment"))
    files[nth].unlink()
    if nth == 0:  # as if retention had dropped it
        with LocalLog(folder) as log:
            assert log.start == int(files[1].name[:20])
        return
    with pytest.raises(LogCorrupt, match=r"missing|everything before"):
        LocalLog(folder)
    with pytest.raises(LogCorrupt):
        LocalLog(folder, read_only=True)
    assert not verify(folder).sound


def test_when_all_segments_are_missing_no_new_log_is_begun(written: Path, tmp_path: Path) -> None:
    folder, _ = copied(written, tmp_path)
    for file in folder.glob("*.segment"):
        file.unlink()
    with pytest.raises(LogCorrupt, match="all segments are missing"):
        LocalLog(folder)


def test_a_sealed_segment_that_was_cut_or_grew_is_noticed_when_opening(written: Path, tmp_path: Path) -> None:
    folder, _ = copied(written, tmp_path)
    first = min(folder.glob("*.segment"))
    content = first.read_bytes()
    for changed in (content[:-1], content + b"\0", content[: len(content) // 2]):
        first.write_bytes(changed)
        with pytest.raises(LogCorrupt, match="were written"):
            LocalLog(folder)


def test_what_a_crash_left_of_a_new_segment_is_removed(tmp_path: Path) -> None:
    with LocalLog(tmp_path) as log:
        log.append([updates(0, 10)])
    draft = tmp_path / f"{10:020d}.segment.new"
    draft.write_bytes(b"SLACK")
    with LocalLog(tmp_path) as log:
        assert sequences(log) == list(range(10))
    assert not draft.exists()


def test_another_format_is_refused_with_advice(tmp_path: Path) -> None:
    LocalLog(tmp_path).close()
    file = last_file(tmp_path)
    content = bytearray(file.read_bytes())
    content[8] = 9
    file.write_bytes(content)
    with pytest.raises(LogError, match="format 9"):
        LocalLog(tmp_path)
