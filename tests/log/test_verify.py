from pathlib import Path

import pytest

from slackwater.core import Column, DataType, Instant, LogError, Origin, TableSchema, Update, disk
from slackwater.core.arrow import to_batch
from slackwater.log import LocalLog, RecordKind, TableDefined, Updates, inspect, verify

QUOTES = TableSchema("quotes", (Column("symbol", DataType.TEXT, nullable=False),), key=("symbol",))


def updates(first: int, rows: int) -> Updates:
    numbers = range(first, first + rows)
    return Updates(
        "quotes", to_batch(QUOTES, [Update("quotes", (f"S{n}",), Instant(n), Origin("test", n)) for n in numbers])
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with LocalLog(tmp_path, segment_bytes=4000, now=lambda: Instant(77)) as log:
        log.append([TableDefined(QUOTES)])
        for n in range(0, 100, 10):
            log.append([updates(n, 10)])
    return tmp_path


def test_a_sound_log_is_found_sound_and_progress_is_told(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    report = verify(folder, lambda done, total: told.append((done, total)))
    size = sum(file.stat().st_size for file in folder.glob("*.segment"))
    assert report.sound
    assert (report.start, report.end, report.rows, report.records) == (0, 101, 101, 11)
    assert (report.size, report.unfinished_bytes) == (size, 0)
    assert report.segments == len(list(folder.glob("*.segment"))) > 2
    assert told == sorted(told)
    assert told[-1] == (size, size)


def test_all_damage_is_listed_with_its_place(folder: Path) -> None:
    files = sorted(folder.glob("*.segment"))
    expected: list[tuple[str, int]] = []
    for file in files[:3]:
        content = bytearray(file.read_bytes())
        at = content.index(b"SWfr")
        at = content.index(b"SWfr", at + 1)  # the second frame of each segment
        content[at + 90] ^= 255
        file.write_bytes(content)
        expected.append((file.name, at))
    report = verify(folder)
    assert [(damage.file, damage.offset) for damage in report.damage] == expected
    positions = [damage.position for damage in report.damage]
    assert all(int(damage.file[:20]) < damage.position for damage in report.damage)
    assert positions == sorted(positions)
    assert report.records == 11 - 3, "reading goes on behind the damage"
    assert report.end == 101


def test_a_damaged_header_and_a_missing_segment_are_listed(folder: Path) -> None:
    files = sorted(folder.glob("*.segment"))
    content = bytearray(files[0].read_bytes())
    content[30] ^= 1
    files[0].write_bytes(content)
    files[1].unlink()
    report = verify(folder)
    assert [(damage.file, damage.offset, damage.position) for damage in report.damage] == [
        (files[0].name, 0, 0),
        (files[1].name, 0, int(files[1].name[:20])),
    ]
    assert "header" in report.damage[0].what
    assert "missing" in report.damage[1].what


def test_an_unfinished_write_is_no_damage(folder: Path) -> None:
    with max(folder.glob("*.segment")).open("ab") as stream:
        stream.write(bytes(500))
    report = verify(folder)
    assert report.sound
    assert (report.unfinished_bytes, report.end) == (500, 101)


def test_a_log_may_be_verified_while_it_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = disk.sync
    reports = []

    def look_before(descriptor: int) -> None:
        reports.append(verify(folder))
        sync(descriptor)

    with LocalLog(folder) as log:
        monkeypatch.setattr(disk, "sync", look_before)
        log.append([updates(100, 10)])
        monkeypatch.undo()
    assert reports[0].sound
    assert reports[0].end == 101
    assert reports[0].unfinished_bytes > 0
    assert verify(folder).end == 111


def test_where_there_is_no_log_that_is_said(tmp_path: Path) -> None:
    for look in (verify, inspect):
        with pytest.raises(LogError, match="there is no"):
            look(tmp_path / "nowhere")
        with pytest.raises(LogError, match="there is no"):
            look(tmp_path)


def test_a_summary_counts_what_stands_there(folder: Path) -> None:
    summary = inspect(folder)
    files = sorted(folder.glob("*.segment"))
    assert (summary.start, summary.end, summary.tables, summary.records) == (0, 101, ("quotes",), 11)
    assert [segment.file for segment in summary.segments] == [file.name for file in files]
    assert [segment.size for segment in summary.segments] == [file.stat().st_size for file in files]
    assert [segment.end for segment in summary.segments[:-1]] == [segment.first for segment in summary.segments[1:]]
    assert {segment.begun for segment in summary.segments} == {77}
    assert summary.size == sum(file.stat().st_size for file in files)
    batches, definition = summary.contents
    assert (batches.kind, batches.table, batches.records, batches.rows) == (RecordKind.UPDATES, "quotes", 10, 100)
    assert (batches.earliest, batches.latest) == (summary.earliest, summary.latest) == (0, 99)
    assert (definition.kind, definition.rows, definition.earliest) == (RecordKind.TABLE, 1, None)


def test_an_empty_log_is_summarised(tmp_path: Path) -> None:
    LocalLog(tmp_path).close()
    summary = inspect(tmp_path)
    assert (summary.start, summary.end, summary.contents, summary.earliest) == (0, 0, (), None)
    assert verify(tmp_path).sound


def test_a_cut_segment_is_listed(folder: Path) -> None:
    first = min(folder.glob("*.segment"))
    content = first.read_bytes()
    cut = content.rindex(b"SWfr")
    first.write_bytes(content[:cut])
    (damage,) = verify(folder).damage
    assert (damage.file, damage.offset) == (first.name, cut)
    assert f"{cut} bytes where {len(content)} were written" in damage.what
