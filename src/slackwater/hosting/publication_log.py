"""Publication log: the folder of a remote host's notifications; durable, ordered, each batch exactly once.

    lock            held by the host that may write
    generation      how many hosts have held it so far
    next            the batch that was begun, see `Cut`
    said/           a file for each batch, named by its first position, see `publication`
    answers/        snapshots of all answers up to a position, see `replica`

A batch is begun by writing down where it ends, and done when its file stands there. A host that dies in between is
followed by one that cuts the log at the same place, so its publication is the same. A reader knows the name of the
next file from the end of the one before. Files before the older of the two snapshots are removed.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from slackwater.core.durable_file import replace_file, sealed, unsealed
from slackwater.core.errors import PositionGone, StoreError
from slackwater.core.folder_lock import LockedFolder
from slackwater.core.types import Position
from slackwater.hosting.publication import Publication, decode, encode
from slackwater.hosting.replica import Replica
from slackwater.hosting.snapshots import NodeSnapshot, SnapshotFolder

_MAGIC = b"SWSAID01"
_SAID = "said"
_ANSWERS = "answers"
_LOOKS = 200
"""Polls without a result between two checks whether the next file was already removed."""


class Cut(msgspec.Struct, frozen=True):
    """A batch that was begun: from where to where, and under which sharding."""

    start: int
    end: int
    sharding: int


def batch_starts(folder: Path) -> list[int]:
    """Start positions of the published batches, in order."""
    try:
        return sorted(int(path.name[:20]) for path in (folder / _SAID).iterdir() if path.suffix == ".said")
    except FileNotFoundError:
        return []


def read_publication(folder: Path, start: int) -> Publication | None:
    """The publication of the batch that begins at a position; None before it is published."""
    path = _path(folder, start)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    body = unsealed(_MAGIC, content)
    if body is None:
        raise StoreError(
            f"{path} is damaged; the values last sent to clients are lost: let the host and the servers begin with "
            f"a new folder"
        )
    return decode(body)


class PublicationReader:
    """Reader of the publication log. The caller applies each result of `next` to `replica`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.replica = _latest(folder)
        self._in_vain = 0

    def catch_up(self) -> None:
        """Apply everything published so far."""
        while (publication := self.next()) is not None:
            self.replica.apply(publication)

    def next(self) -> Publication | None:
        """The publication after the replica's position; None before it is published."""
        found = read_publication(self.folder, self.replica.position)
        self._in_vain = 0 if found is not None else self._in_vain + 1
        if self._in_vain % _LOOKS == 1:
            starts = batch_starts(self.folder)
            if starts and starts[0] > self.replica.position:
                raise PositionGone(
                    f"the publication at position {self.replica.position} is no longer in {self.folder}, which begins "
                    f"at {starts[0]}; begin again from the answers there"
                )
        return found


class PublicationWriter(LockedFolder):
    """Exclusive writer of the publication log; it takes the folder's lock under a new generation."""

    def __init__(self, folder: Path) -> None:
        (folder / _SAID).mkdir(parents=True, exist_ok=True)
        super().__init__(folder, f"{folder} is being written by another host; stop that one first")
        try:
            self.generation = int((_read(folder / "generation") or b"0").decode()) + 1
            replace_file(folder / "generation", str(self.generation).encode())
            reader = PublicationReader(folder)
            reader.catch_up()
            self.replica = reader.replica
            beyond = [start for start in batch_starts(folder) if start >= self.replica.position]
            if beyond:
                raise StoreError(
                    f"the publication at {self.replica.position} is missing from {folder}, which goes on at "
                    f"{beyond[0]}: let the host and the servers begin with a new folder"
                )
        except BaseException:
            self.release()
            raise
        self._answers = SnapshotFolder(folder / _ANSWERS)

    def begun(self) -> Cut | None:
        """The batch that was begun and not published, if there is one."""
        content = _read(self.folder / "next")
        cut = None if content is None else msgspec.json.decode(content, type=Cut)
        return cut if cut is not None and cut.start == self.replica.position else None

    def begin(self, cut: Cut) -> None:
        """Write down where a batch ends, before any of it is done."""
        replace_file(self.folder / "next", msgspec.json.encode(cut))

    def publish(self, publication: Publication) -> None:
        """Write the publication of a batch durably; from then on it counts."""
        self.replica.follow(publication)
        replace_file(_path(self.folder, publication.start), sealed(_MAGIC, encode(publication)))
        self.replica.apply(publication)

    def write_snapshot(self) -> None:
        """Write a snapshot of all answers, so that readers need not begin with the first publication."""
        self._answers.write(NodeSnapshot(self.replica.position, self.replica.snapshot()))

    def forget_before(self, position: int) -> None:
        """Remove publications before this position that the snapshots cover."""
        kept = self._answers.positions()
        # A reader may be as far behind as the older of two.
        limit = min(position, kept[-1] if len(kept) > 1 else 0)
        for start in batch_starts(self.folder):
            if start < limit:
                _path(self.folder, start).unlink(missing_ok=True)


def _latest(folder: Path) -> Replica:
    for snapshot in _sound(folder):
        with suppress(StoreError):
            return Replica.restore(snapshot.state)
    return Replica()


def _sound(folder: Path) -> Iterator[NodeSnapshot]:
    return SnapshotFolder(folder / _ANSWERS).read(Position(0), Position(2**63 - 1))


def _path(folder: Path, start: int) -> Path:
    return folder / _SAID / f"{start:020d}.said"


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
