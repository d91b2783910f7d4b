"""One writer, one commit after the other, and nothing left of what was not committed."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from slackwater.core import Position, SchemaError, StoreError
from slackwater.core.lineage import Place
from slackwater.pipeline.tables.layout import Kind, ParquetFile, made_from, table_folder, write_parquet
from slackwater.pipeline.tables.manifest import (
    Bucket,
    DataFile,
    DatedFile,
    Loaded,
    Manifest,
    ManifestState,
    RecentFile,
    Settled,
    TableState,
    need_state,
    read_state,
    write_manifest,
)
from slackwater.pipeline.tables.store import TableStore

if TYPE_CHECKING:
    from tests.pipeline.conftest import World

ROWS = pa.table({"n": [1, 2, 3]})


def at(position: int) -> Place:
    return Place(7, Position(position))


def recent(path: str) -> RecentFile:
    return RecentFile(Kind.UPDATES, "quotes", DataFile(path, 3, 0, 3))


def test_what_is_committed_is_read_back(world: "World", tmp_path: Path) -> None:
    settled = Settled(
        tables=(TableState(world.rooms, 7, 2, (Bucket(1, DataFile("latest/b", 5)),)),),
        history=(DatedFile("rooms / 1", "2026-11-16", DataFile("history/h", 9, 0, 9)),),
        quarantine=(DatedFile("rooms / 1", "2026-11-16", DataFile("quarantine/q", 1)),),
        loads=(Loaded("rooms / 1", "a.csv", 99, 1234, 5678),),
        retired=("history/old",),
    )
    with TableStore(tmp_path / "new" / "out") as store:
        assert (store.state.position, store.state.manifest.begun) == (0, -1)
        store.commit(place=at(50), recent=[recent("recent/r")], settled=settled, batches=1)
        expected = store.state
    state = need_state(tmp_path / "new" / "out")
    assert state == expected == ManifestState(replace(state.manifest, position=50), settled)
    assert state.paths() == {"latest/b", "history/h", "quarantine/q", "recent/r", "history/old"}
    assert state.settled.table("rooms / 1").keys == 5
    with pytest.raises(SchemaError, match="there are: rooms / 1"):
        state.settled.table("quotes")


def test_only_one_may_write(tmp_path: Path) -> None:
    with TableStore(tmp_path) as store:
        with pytest.raises(StoreError, match="another pipeline or load"):
            TableStore(tmp_path)
        # Even where locks do not work, two can never both make the same version.
        write_manifest(tmp_path, replace(store.state.manifest, version=store.next_version))
        with pytest.raises(StoreError, match=r"version 1 .* by another writer"):
            store.commit(place=at(1))
    TableStore(tmp_path).release()


def test_files_that_do_not_count_are_removed_at_the_next_start(tmp_path: Path) -> None:
    with TableStore(tmp_path) as store:
        for name in ("kept", "leftover", ".draft.parquet"):
            write_parquet(tmp_path / "recent" / "updates" / name, ROWS)
        (tmp_path / "manifest" / ".draft").touch()
        store.commit(place=at(3), recent=[recent("recent/updates/kept")])
    with TableStore(tmp_path) as store:
        assert [path.name for path in (tmp_path / "recent" / "updates").iterdir()] == ["kept"]
        assert not (tmp_path / "manifest" / ".draft").exists()
        store.remove(["recent/updates/kept"])
        assert (tmp_path / "recent" / "updates" / "kept").exists(), "what counts is never removed"
        store.commit(recent=[])
        store.remove(["recent/updates/kept"])
        assert not (tmp_path / "recent" / "updates" / "kept").exists()


def test_old_manifests_go_and_every_one_that_stays_can_be_read(tmp_path: Path) -> None:
    with TableStore(tmp_path) as store:
        for version in range(1, 30):
            settled = Settled(retired=(f"{version}",)) if version % 7 == 0 else None
            store.commit(place=at(version), settled=settled)
            names = sorted(int(path.stem) for path in (tmp_path / "manifest").glob("*.json"))
            assert names == list(range(max(0, version - 4), version + 1))
            for name in names:
                # As if the reader had listed the folder before the later ones came.
                path = tmp_path / "manifest" / f"{name:020d}.json"
                manifest = Manifest(**{**_decoded(path), "recent": ()})  # type: ignore[arg-type]
                assert (tmp_path / "settled" / manifest.settled).exists()
        assert len(list((tmp_path / "settled").iterdir())) <= 2


def _decoded(path: Path) -> dict[str, object]:
    import json

    decoded: dict[str, object] = json.loads(path.read_bytes())
    return decoded


def test_an_empty_folder_a_broken_file_and_another_format_are_told_apart(tmp_path: Path) -> None:
    assert read_state(tmp_path / "nowhere") is None
    with pytest.raises(StoreError, match="there is nothing in"):
        need_state(tmp_path / "nowhere")
    with TableStore(tmp_path) as store:
        store.commit(place=at(1))
    newest = max((tmp_path / "manifest").glob("*.json"))
    content = newest.read_bytes()
    newest.write_bytes(content.replace(b'"format":1', b'"format":9'))
    with pytest.raises(StoreError, match="format 9, this version reads 1"):
        read_state(tmp_path)
    newest.write_bytes(content[:20])
    with pytest.raises(StoreError, match="cannot be read"):
        read_state(tmp_path)
    newest.write_bytes(content)
    for path in (tmp_path / "settled").iterdir():
        path.unlink()
    with pytest.raises(StoreError, match="names files that are not there"):
        read_state(tmp_path)


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "x.parquet"
    file = ParquetFile(path, ROWS.schema)
    file.write(ROWS)
    assert [one.name.startswith(".x.parquet.") for one in path.parent.iterdir()] == [True]
    file.close()
    assert os.listdir(path.parent) == ["x.parquet"]  # noqa: PTH208
    broken = ParquetFile(path.with_name("y.parquet"), ROWS.schema)
    broken.abandon()
    wrong = ParquetFile(path.with_name("z.parquet"), ROWS.schema)
    with pytest.raises(ValueError, match="schema"):
        wrong.write(pa.table({"m": ["a"]}))
    wrong.abandon()
    assert os.listdir(path.parent) == ["x.parquet"]  # noqa: PTH208


@pytest.mark.parametrize("name", ["quotes", "..", ".", "a/b", "a\\b", "é" * 128, "x" * 128, "a%2Fb", "date=1", " "])
def test_a_table_of_any_name_is_one_folder_of_its_own(name: str, tmp_path: Path) -> None:
    folder = tmp_path / table_folder(name)
    folder.mkdir()
    assert folder.resolve().parent == tmp_path.resolve()
    others = ["quotes", "..", "a/b", "a%2Fb", "é" * 127, "x" * 127]
    assert all(table_folder(other) != table_folder(name) for other in others if other != name)


def test_a_name_from_inputs_does_not_depend_on_their_order() -> None:
    assert made_from(["a", "b"]) == made_from(["b", "a"])
    assert made_from(["a", "b"]) != made_from(["ab"])
