"""A snapshot is whole or not there; the older one stands in for a damaged one."""

from pathlib import Path

import pytest

from slackwater.core.durable_file import sealed
from slackwater.core.errors import StoreError
from slackwater.core.types import Position
from slackwater.hosting.snapshots import NodeSnapshot, SnapshotFolder

END = Position(1000)


def snapshot(position: int) -> NodeSnapshot:
    return NodeSnapshot(Position(position), f"state at {position}".encode() * 50)


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    made = SnapshotFolder(tmp_path / "snapshots")
    for position in (10, 200, 30):
        made.write(snapshot(position))
    return made


def test_the_two_latest_are_kept(folder: SnapshotFolder) -> None:
    assert list(folder.read(Position(0), END)) == [snapshot(200), snapshot(30)]
    assert folder.oldest() == 30


def test_those_that_the_log_does_not_reach_are_passed_over(folder: SnapshotFolder) -> None:
    assert [one.position for one in folder.read(Position(0), Position(199))] == [30]
    assert [one.position for one in folder.read(Position(31), END)] == [200]


@pytest.mark.parametrize("at", [0, 7, 8, 23, 24, 300, -1])
def test_any_changed_byte_is_noticed(folder: SnapshotFolder, at: int) -> None:
    path = folder.folder / f"{200:020d}.snapshot"
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    assert [one.position for one in folder.read(Position(0), END)] == [30]


@pytest.mark.parametrize("length", [0, 5, 24, 100])
def test_a_shortened_one_is_noticed(folder: SnapshotFolder, length: int) -> None:
    path = folder.folder / f"{200:020d}.snapshot"
    path.write_bytes(path.read_bytes()[:length])
    assert [one.position for one in folder.read(Position(0), END)] == [30]


def test_drafts_of_killed_writers_are_removed(folder: SnapshotFolder) -> None:
    before = sorted(folder.folder.iterdir())
    for position in (3, 99):
        (folder.folder / f"{position:020d}.snapshot.draft").write_bytes(b"half of a sta")
    folder.drop_drafts()
    assert sorted(folder.folder.iterdir()) == before
    SnapshotFolder(folder.folder / "none").drop_drafts()


def test_other_files_are_left_alone(folder: SnapshotFolder) -> None:
    (folder.folder / "notes.txt").write_text("mine")
    (folder.folder / "00000000000000000300.draft").write_bytes(b"half")
    folder.write(snapshot(400))
    assert [one.position for one in folder.read(Position(0), END)] == [400, 200]
    assert (folder.folder / "notes.txt").exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        SnapshotFolder(tmp_path / "file").write(snapshot(1))
    assert list(SnapshotFolder(tmp_path / "nowhere").read(Position(0), END)) == []


def test_what_is_put_aside_is_neither_read_nor_counted(folder: SnapshotFolder) -> None:
    aside = folder.put_aside(Position(200))
    assert aside.exists()
    assert [one.position for one in folder.read(Position(0), END)] == [30]
    folder.write(snapshot(40))
    assert folder.positions() == [40, 30], "the one put aside takes no place"
    folder.put_aside(Position(40))
    assert not aside.exists(), "the latest stays"


def test_the_incarnation_is_kept_and_files_of_before_have_none(folder: SnapshotFolder) -> None:
    folder.write(NodeSnapshot(Position(300), b"state", incarnation=2**62))
    former = folder.folder / f"{400:020d}.snapshot"
    former.write_bytes(sealed(b"SWSNAP01", b"state of before"))
    assert list(folder.read(Position(201), END)) == [
        NodeSnapshot(Position(400), b"state of before"),
        NodeSnapshot(Position(300), b"state", 2**62),
    ]
