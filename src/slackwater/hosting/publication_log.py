"""Publication log: the folder of a remote host's notifications; durable, ordered, each batch exactly once.

    lock            held by the host that may write
    generation      how many hosts have held it so far
    editions        the editions of the publication log, see below
    next            the batch that was begun, see `Cut`
    said/           a file for each batch, named by its first position, see `publication`
    answers/        snapshots of all answers up to a position, see `replica`
    aside/          what was made from another history of the log

A batch is begun by writing down where it ends, and done when its file stands there. A host that dies in between is
followed by one that cuts the log at the same place, so its publication is the same. A reader knows the name of the
next file from the end of the one before. Files before the older of the two snapshots are removed.

Editions
    An *edition* is to a publication log what an incarnation is to a log: each opening by a host begins one, where the
    publications end, under a random number. Every publication, snapshot and replica names its edition. Values are
    published within bounds of those before, so two hosts may publish different values of the same history: a replica
    goes on only with publications that were made after its own (`core.lineage`, over publications).

Histories
    Every publication names the place in the log up to which it was made. A reader takes it in only where its own log
    holds that place. A host whose own place the log does not hold puts everything aside and begins the publication log
    anew, under an edition that lists no former one.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from slackwater.core.aside import finish_aside, put_aside
from slackwater.core.durable_file import replace_file, sealed, unsealed
from slackwater.core.errors import PositionGone, StoreError
from slackwater.core.folder_lock import LockedFolder
from slackwater.core.lineage import FORMER, Lineage, Place, PlainLineage
from slackwater.core.types import Position
from slackwater.hosting.publication import Publication, decode, encode
from slackwater.hosting.replica import Replica
from slackwater.hosting.snapshots import NodeSnapshot, SnapshotFolder
from slackwater.log.extent import LogExtent, PlaceRelation
from slackwater.log.incarnation import new_incarnation

_MAGIC = b"SWSAID01"
_SAID = "said"
_ANSWERS = "answers"
_SHARDS = "shards"
_NEXT = "next"
_EDITIONS = "editions"
PARTS = (_SAID, _ANSWERS, _SHARDS, "shardings", _NEXT, _EDITIONS)
"""All that a host makes from a log."""
_LOOKS = 200
"""Polls without a result between two checks whether the next file was already removed."""
_PLACE_LOOKS = 20
"""Polls without a result between two checks whether the log still holds the replica."""


class Cut(msgspec.Struct, frozen=True):
    """A batch that was begun: from where to where, under which sharding; at its end the log has this incarnation."""

    start: int
    end: int
    sharding: int
    incarnation: int = FORMER

    @property
    def place(self) -> Place:
        """The place in the log where it ends."""
        return Place(self.incarnation, Position(self.end))


class PublicationsReplaced(StoreError):
    """What a reader has taken in does not belong to the publication log, or to its own log, any more."""


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


def read_editions(folder: Path) -> Lineage:
    """The editions of a publication log; none in a folder from before there were editions."""
    content = _read(folder / _EDITIONS)
    if content is None:
        return Lineage()
    try:
        return Lineage.read(msgspec.json.decode(content, type=PlainLineage))
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreError(f"{folder / _EDITIONS} cannot be read: {error}; put it back from a copy") from error


class PublicationReader:
    """Reader of the publication log. The caller applies each result of `next` to `replica`.

    `extent` looks at the reader's log: only what that log holds is read. Without it the publication log is read as it
    is, as its own writer does.
    """

    def __init__(self, folder: Path, extent: Callable[[], LogExtent] | None = None) -> None:
        self.folder = folder
        self._extent = extent
        self._editions = read_editions(folder)
        self.replica = self._latest()
        self._in_vain = 0
        self._behind: str | None = None
        self._beyond: str | None = None

    @property
    def doubt(self) -> str | None:
        """Why the replica cannot be relied on, or cannot be brought further; None while all is well."""
        return self._behind or self._beyond

    def catch_up(self) -> None:
        """Apply everything published so far."""
        while (publication := self.next()) is not None:
            self.replica.apply(publication)

    def next(self) -> Publication | None:
        """The publication after the replica's position; None before it is published, or while the log lacks it.

        Raises `PublicationsReplaced` where the replica is of another edition, or the log does not hold its place.
        """
        found = read_publication(self.folder, self.replica.position)
        if found is not None:
            self._check_edition(found.edition)
        if found is None or not self._is_ours(found.published):
            # One of another edition is about to be put aside.
            self._wait()
            return None
        # After the publication was read: the log now shows at least what its maker saw.
        extent = self._look()
        self._check_replica(extent)
        relation = _relation(extent, found.place)
        if relation is PlaceRelation.FOREIGN:
            self._beyond = f"the publications in {self.folder} were made from another history than that of the log"
        if relation is not PlaceRelation.HELD:
            return None
        self._in_vain, self._beyond = 0, None
        return found

    def _wait(self) -> None:
        self._in_vain += 1
        if self._in_vain % _PLACE_LOOKS == 1:
            self._check_replica(self._look())
        if self._in_vain % _LOOKS != 1:
            return
        self._check_edition(None)
        self._beyond = None
        starts = batch_starts(self.folder)
        if not starts or starts[0] <= self.replica.position:
            return
        if self._latest().position > self.replica.position:
            raise PositionGone(
                f"the publication at position {self.replica.position} is no longer in {self.folder}, which begins "
                f"at {starts[0]}; begin again from the answers there"
            )
        self._beyond = (
            f"the answers in {self.folder} were made from another history than that of the log, or from more of it "
            f"than the log shows"
        )

    def _check_edition(self, edition: int | None) -> None:
        """Read the editions anew, unless this one is known as the present one."""
        if edition is None or edition != self._editions.current or edition != self.replica.edition:
            self._editions = read_editions(self.folder)
            if not self._is_ours(self.replica.published):
                raise PublicationsReplaced(f"the publication log in {self.folder} was begun anew")

    def _check_replica(self, extent: LogExtent | None) -> None:
        """The log must hold what was taken in, as it did then."""
        relation = _relation(extent, self.replica.place)
        if relation is PlaceRelation.FOREIGN:
            raise PublicationsReplaced("the history of the log was replaced")
        held = relation is PlaceRelation.HELD
        self._behind = None if held else f"the log ends before position {self.replica.position}, which was published"

    def _look(self) -> LogExtent | None:
        return None if self._extent is None else self._extent()

    def _is_ours(self, place: Place) -> bool:
        return place.position == 0 or self._editions.holds(place)

    def _latest(self) -> Replica:
        """The replica of the latest snapshot that belongs to the publication log and to the log."""
        for snapshot in _sound(self.folder):
            with suppress(StoreError):
                replica = Replica.restore(snapshot.state)
                held = _relation(self._look(), replica.place) is PlaceRelation.HELD
                if held and self._is_ours(replica.published):
                    return replica
        return Replica()


class PublicationWriter(LockedFolder):
    """Exclusive writer of the publication log; it takes the folder's lock under a new generation and edition."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, f"{folder} is being written by another host; stop that one first")
        try:
            finish_aside(folder, PARTS)
            (folder / _SAID).mkdir(exist_ok=True)
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
            self.editions = read_editions(folder)
            self._begin_edition()
        except BaseException:
            self.release()
            raise
        self._answers = SnapshotFolder(folder / _ANSWERS)

    def begun(self) -> Cut | None:
        """The batch that was begun and not published, if there is one."""
        content = _read(self.folder / _NEXT)
        cut = None if content is None else msgspec.json.decode(content, type=Cut)
        return cut if cut is not None and cut.start == self.replica.position else None

    def begin(self, cut: Cut) -> None:
        """Write down where a batch ends, before any of it is done."""
        replace_file(self.folder / _NEXT, msgspec.json.encode(cut))

    def publish(self, publication: Publication) -> None:
        """Write the publication of a batch durably; from then on it counts."""
        publication = replace(publication, edition=self.editions.current)
        self.replica.follow(publication)
        replace_file(_path(self.folder, publication.start), sealed(_MAGIC, encode(publication)))
        self.replica.apply(publication)

    def begin_anew(self) -> Path:
        """Put everything aside and begin at position 0; returns where the former publications are."""
        aside = put_aside(self.folder, PARTS)
        (self.folder / _SAID).mkdir(exist_ok=True)
        self.replica, self.editions = Replica(), Lineage()
        self._begin_edition()
        return aside

    def abandon(self) -> None:
        """Forget the batch that was begun, and all that was made for it: the log does not hold its end."""
        (self.folder / _NEXT).unlink(missing_ok=True)
        for path in (self.folder / _SHARDS).glob("*/*.snapshot"):
            if int(path.name[:20]) > self.replica.position:
                path.unlink(missing_ok=True)
        self._begin_edition()

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

    def _begin_edition(self) -> None:
        self.editions = self.editions.begin(new_incarnation(), self.replica.position)
        replace_file(self.folder / _EDITIONS, msgspec.json.encode(self.editions.plain()))


def _relation(extent: LogExtent | None, place: Place) -> PlaceRelation:
    return PlaceRelation.HELD if extent is None else extent.relation(place)


def _sound(folder: Path) -> Iterator[NodeSnapshot]:
    return SnapshotFolder(folder / _ANSWERS).read(Position(0), Position(2**63 - 1))


def _path(folder: Path, start: int) -> Path:
    return folder / _SAID / f"{start:020d}.said"


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
