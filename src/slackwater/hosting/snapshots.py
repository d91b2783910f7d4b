"""Snapshots: checkpoints of a node's state, so that a start need not replay the whole log.

A snapshot is a function of its place in the history of a log, so losing one costs time and nothing else. A file is
whole or not there, with its checksum at its head. The two latest are kept: whatever is found damaged is passed over for
the older one, and after that for the beginning of the log. What belongs to another history, as after the log was
restored from a copy, is put aside under another name.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slackwater.core.durable_file import replace_file, sealed, unsealed
from slackwater.core.errors import StoreError
from slackwater.core.lineage import FORMER, Place
from slackwater.core.types import Position

KEPT = 2
_MAGIC = b"SWSNAP02"
_WITHOUT_INCARNATION = b"SWSNAP01"
"""The format before logs listed their incarnations."""
_ASIDE = ".aside"
_DRAFT = ".snapshot.draft"
_INCARNATION = struct.Struct("<Q")
_NAME = re.compile(r"^(\d{20})\.snapshot$")


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """The state of a node as of a position in the history of an incarnation."""

    position: Position
    state: bytes
    incarnation: int = FORMER

    @property
    def place(self) -> Place:
        """Where the log has to have been for it to be of use."""
        return Place(self.incarnation, self.position)


class SnapshotFolder:
    """Writes snapshots and finds them again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, snapshot: NodeSnapshot) -> Path:
        """Make a snapshot durable, then forget all but the latest two."""
        path = self.folder / f"{snapshot.position:020d}.snapshot"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            content = sealed(_MAGIC, _INCARNATION.pack(snapshot.incarnation) + snapshot.state)
            replace_file(path, content, draft=path.with_suffix(_DRAFT))
            for old in self._paths()[KEPT:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"a snapshot cannot be written to {self.folder}: {error}") from error
        return path

    def drop_drafts(self) -> None:
        """Remove what writers that were killed have left; for the only writer of a folder."""
        try:
            for draft in self.folder.glob("*" + _DRAFT):
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"drafts in {self.folder} cannot be removed: {error}") from error

    def read(self, start: Position, end: Position) -> Iterator[NodeSnapshot]:
        """The sound snapshots from which a log that holds these positions can be followed, latest first."""
        for path in self._paths():
            position = Position(int(path.name[:20]))
            if not start <= position <= end:
                continue
            try:
                content = path.read_bytes()
            except OSError:
                continue
            body = unsealed(_MAGIC, content)
            if body is not None and len(body) >= _INCARNATION.size:
                yield NodeSnapshot(position, body[_INCARNATION.size :], *_INCARNATION.unpack_from(body))
                continue
            state = unsealed(_WITHOUT_INCARNATION, content)
            if state is not None:
                yield NodeSnapshot(position, state)

    def put_aside(self, position: Position) -> Path:
        """Rename a snapshot of another history, so that it is neither read nor counted; of those the latest stays."""
        path = self.folder / f"{position:020d}.snapshot"
        aside = path.with_name(path.name + _ASIDE)
        try:
            for old in self.folder.glob("*" + _ASIDE):
                old.unlink(missing_ok=True)
            path.rename(aside)
        except OSError as error:
            raise StoreError(f"{path} cannot be put aside: {error}") from error
        return aside

    def oldest(self) -> Position | None:
        """The position of the oldest one: the log is needed from there on."""
        paths = self._paths()
        return Position(int(paths[-1].name[:20])) if paths else None

    def positions(self) -> list[Position]:
        """Where those that are kept stand, latest first."""
        return [Position(int(path.name[:20])) for path in self._paths()]

    def _paths(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted((path for path in self.folder.iterdir() if _NAME.match(path.name)), reverse=True)
