"""Manifest: the files that make up *latest*, *history* and *quarantine* as of a position.

Design
    A *manifest* is a small file, written anew for every micro-batch: the position, the recent files, and the name
    of a *settled* file with the long lists, which changes only when recent rows are settled. So a commit costs the
    same however long the history is. Versions count up; the highest is the truth. Its file is made in one step and
    never overwritten: if two writers ever came to the same version, one of them would be refused.

    A crash leaves the last manifest and some files that it does not name. They are removed at the next start.

    Files that a settling replaced stay for one more settling (`retired`), for readers that still go by an older
    manifest.
"""

import os
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from slackwater.core import disk
from slackwater.core.durable_file import replace_file, write_draft
from slackwater.core.errors import SchemaError, StoreError
from slackwater.core.lineage import FORMER, Place
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.pipeline.tables.layout import Kind, make_folder

T = TypeVar("T")

FORMAT = 1
_ATTEMPTS = 50
_KEPT = 4
"""Manifests that stay beside the newest, for readers that have just listed the folder."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file, its path from the store's folder on, and the positions its rows lie between.

    Both are -1 for rows of a bulk load, which never stood in the log.
    """

    path: str
    rows: int
    first: int = -1
    end: int = -1


@dataclass(frozen=True, slots=True)
class RecentFile:
    """Rows as a micro-batch brought them."""

    kind: Kind
    table: str
    file: DataFile


@dataclass(frozen=True, slots=True)
class DatedFile:
    """Rows of one table and one UTC date (`2026-11-16`)."""

    table: str
    date: str
    file: DataFile


@dataclass(frozen=True, slots=True)
class Bucket:
    """The last rows of the keys whose hash falls here."""

    number: int
    file: DataFile


@dataclass(frozen=True, slots=True)
class TableState:
    """A table: its schema, where it was defined, and its latest rows in `count` buckets (missing ones are empty)."""

    schema: TableSchema
    since: int
    count: int = 1
    latest: tuple[Bucket, ...] = ()

    @property
    def keys(self) -> int:
        """How many keys were ever seen, deleted ones included."""
        return sum(bucket.file.rows for bucket in self.latest)


@dataclass(frozen=True, slots=True)
class Loaded:
    """State of the bulk load from one source: rows numbered up to `upto`, from a file of this size and checksum."""

    table: str
    source: str
    upto: int
    size: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The long lists."""

    tables: tuple[TableState, ...] = ()
    history: tuple[DatedFile, ...] = ()
    quarantine: tuple[DatedFile, ...] = ()
    loads: tuple[Loaded, ...] = ()
    retired: tuple[str, ...] = ()

    def dated(self, kind: Kind) -> tuple[DatedFile, ...]:
        """The files by date of one kind."""
        return self.history if kind is Kind.UPDATES else self.quarantine

    def find(self, table: str) -> TableState | None:
        """The table of this name, if there is one."""
        return next((state for state in self.tables if state.schema.name == table), None)

    def table(self, name: str) -> TableState:
        """The table of this name."""
        found = self.find(name)
        if found is None:
            names = ", ".join(state.schema.name for state in self.tables) or "none"
            raise SchemaError(f"there is no table {name!r} here; there are: {names}")
        return found

    def with_table(self, state: TableState) -> "Settled":
        """The lists with one table replaced or added."""
        others = tuple(one for one in self.tables if one.schema.name != state.schema.name)
        return replace(self, tables=(*others, state))

    def paths(self) -> set[str]:
        """All files named here, retired ones included."""
        latest = (bucket.file.path for state in self.tables for bucket in state.latest)
        dated = (one.file.path for one in (*self.history, *self.quarantine))
        return {*latest, *dated, *self.retired}


@dataclass(frozen=True, slots=True)
class Manifest:
    """The committed files as of a position.

    `begun` is where following the log began, -1 while only loads were made. `batches` are micro-batches since the last
    settling. `incarnation` is that of the log at the position.
    """

    version: int
    settled: str
    position: int = 0
    begun: int = -1
    batches: int = 0
    recent: tuple[RecentFile, ...] = ()
    format: int = FORMAT
    incarnation: int = FORMER


@dataclass(frozen=True, slots=True)
class ManifestState:
    """A manifest with its lists."""

    manifest: Manifest
    settled: Settled = field(default_factory=Settled)

    @property
    def position(self) -> int:
        """Everything before it, and nothing behind it, is here."""
        return self.manifest.position

    @property
    def place(self) -> Place:
        """The same with the incarnation of the log there."""
        return Place(self.manifest.incarnation, Position(self.manifest.position))

    def recent(self, kind: Kind, table: str | None = None) -> tuple[RecentFile, ...]:
        """The recent files of a kind, and of a table."""
        return tuple(one for one in self.manifest.recent if one.kind is kind and (table is None or one.table == table))

    def paths(self) -> set[str]:
        """All files that may not be removed."""
        return {*self.settled.paths(), *(one.file.path for one in self.manifest.recent)}


def read_state(folder: Path) -> ManifestState | None:
    """The newest state in a folder, None where there is none yet."""
    for _ in range(_ATTEMPTS):
        try:
            names = sorted((folder / "manifest").glob("*.json"))
            if not names:
                return None
            manifest = _decode(names[-1], Manifest)
            if manifest.format != FORMAT:
                raise StoreError(
                    f"{folder} was written in format {manifest.format}, this version reads {FORMAT}; "
                    f"use the version that wrote it"
                )
            return ManifestState(manifest, _decode(folder / "settled" / manifest.settled, Settled))
        except FileNotFoundError:
            # Nothing was ever written, or the writer moved on between the listing and the reading.
            if not (folder / "manifest").is_dir():
                return None
    raise StoreError(f"the manifest in {folder} names files that are not there; put them back from a copy")


def need_state(folder: Path) -> ManifestState:
    """The newest state in a folder that must have one."""
    state = read_state(folder)
    if state is None:
        raise StoreError(f"there is nothing in {folder} yet: no pipeline has run into it and nothing was loaded")
    return state


def write_settled(folder: Path, version: int, settled: Settled) -> str:
    """Write the long lists for a version to come; return the file's name."""
    name = f"{version:020d}.json"
    replace_file(folder / "settled" / name, msgspec.json.encode(settled), draft=_draft(folder / "settled"))
    return name


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a manifest the newest; refuse if there is one of its version already."""
    path = folder / "manifest" / f"{manifest.version:020d}.json"
    draft = _draft(folder / "manifest")
    write_draft(draft, msgspec.json.encode(manifest))
    try:
        # A link, not a rename: it fails where the name exists, so that one of two writers loses.
        os.link(draft, path)
    except FileExistsError:
        raise StoreError(
            f"version {manifest.version} of {folder} was written by another writer; only one may write there"
        ) from None
    finally:
        draft.unlink()
    disk.sync_folder(path.parent)


def forget_old(folder: Path, newest: int) -> None:
    """Remove manifests and lists that no reader will begin with any more, once this version is the newest."""
    kept = newest - _KEPT
    for path in (folder / "manifest").glob("*.json"):
        if int(path.stem) < kept:
            path.unlink(missing_ok=True)
    # A manifest names the newest lists that are not newer than itself.
    lists = sorted((folder / "settled").glob("*.json"))
    needed = sum(int(path.stem) <= kept for path in lists) - 1
    for path in lists[: max(needed, 0)]:
        path.unlink(missing_ok=True)


def _draft(folder: Path) -> Path:
    make_folder(folder)
    return folder / f".{uuid.uuid4().hex}"


def _decode(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.MsgspecError as error:
        raise StoreError(f"{path} cannot be read: {error}; put it back from a copy") from error
