"""Published labels: versioned plans for very many clients in a folder, one epoch for each plan.

    lock                            held by the planner
    begun                           the plan that is being made: epoch and position
    labels/<epoch>/<bucket>.labels  labels files, one client and table on each line (`core.labels`)
    plans/<epoch>.json              what counts: the position, and the files with their sizes and checksums

Promises
    1. A plan counts from the moment its file in `plans` is there, whole; before that no reader sees any of it.
    2. Epochs go up by one, and positions never go back. At one position there is one plan: a second planner there gets
       the published one. A plan names the incarnation of the log at its position (`core.lineage`): where that is
       another one, as after a restore from a copy, the next plan may be at any position.
    3. A plan that was begun and not published is begun again under the same epoch. Files are named by epoch and
       bucket, so the files of a planner that died are overwritten.
    4. The labels of a client are in the bucket that its name decides, in order of client and table. The last two plans
       can be read; older ones are removed.
"""

import hashlib
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from slackwater.core import disk
from slackwater.core.durable_file import replace_file
from slackwater.core.errors import StoreError
from slackwater.core.folder_lock import LockedFolder
from slackwater.core.labels import Labels, read_labels
from slackwater.core.lineage import FORMER, Place
from slackwater.core.types import Position

FORMAT = 1
KEPT = 2
_ATTEMPTS = 50


class LabelsFile(msgspec.Struct, frozen=True):
    """The labels of the clients of one bucket: how many lines and bytes, and the checksum of them."""

    bucket: int
    lines: int
    size: int
    digest: str


class PublishedPlan(msgspec.Struct, frozen=True):
    """Labels that hold from a position on; `cost` is what they cost on the workload they were made for.

    `at_least` is what no labels within the limits can undercut, `held` the rows in all caches.
    """

    epoch: int
    position: int
    buckets: int
    files: tuple[LabelsFile, ...]
    cost: float = 0.0
    at_least: float = 0.0
    held: int = 0
    format: int = FORMAT
    incarnation: int = FORMER

    @property
    def place(self) -> Place:
        """The place in the log from which on its labels hold."""
        return Place(self.incarnation, Position(self.position))

    @property
    def clients(self) -> int:
        """How many labels there are, one for each client and table."""
        return sum(file.lines for file in self.files)

    @property
    def size(self) -> int:
        """The bytes of all labels."""
        return sum(file.size for file in self.files)


class Begun(msgspec.Struct, frozen=True):
    """A plan that is being made."""

    epoch: int
    position: int
    incarnation: int = FORMER


def bucket_of(client: str, buckets: int) -> int:
    """The bucket of a client; Spark's `crc32` says the same.

    >>> bucket_of("desk-7", 16)
    1
    """
    return zlib.crc32(client.encode()) % buckets


def write_bucket(folder: Path, epoch: int, bucket: int, lines: Sequence[str]) -> LabelsFile:
    """Write the labels of one bucket; they count when the plan is published. Doing it twice is doing it once."""
    content = "".join(f"{line}\n" for line in lines).encode()
    path = _labels(folder, epoch, bucket)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, content)
    return LabelsFile(bucket, len(lines), len(content), _digest(content))


def published_epochs(folder: Path) -> list[int]:
    """The epochs of the plans that can be read, in order."""
    return sorted(int(path.stem) for path in (folder / "plans").glob("*.json"))


def read_plan(folder: Path, epoch: int | None = None) -> PublishedPlan | None:
    """The plan of an epoch, or the newest; None where there is none."""
    for _ in range(_ATTEMPTS):
        epochs = published_epochs(folder)
        if not epochs:
            return None
        path = _plan(folder, epochs[-1] if epoch is None else epoch)
        try:
            plan = msgspec.json.decode(path.read_bytes(), type=PublishedPlan)
        except FileNotFoundError:
            if epoch is not None:
                return None
            continue  # the planner moved on between the listing and the reading
        except msgspec.MsgspecError as error:
            raise StoreError(f"{path} cannot be read: {error}; put it back from a copy, or plan anew") from error
        if plan.format != FORMAT:
            raise StoreError(f"{path} is in format {plan.format}, this version reads {FORMAT}")
        return plan
    raise StoreError(f"plans in {folder} come and go faster than they can be read")


def read_bucket(folder: Path, plan: PublishedPlan, bucket: int) -> list[Labels]:
    """The labels of one bucket of a plan."""
    file = next((one for one in plan.files if one.bucket == bucket), None)
    if file is None:
        return []
    path = _labels(folder, plan.epoch, bucket)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise StoreError(f"{path} is not there; read the newest plan, older ones are removed") from None
    if len(content) != file.size or _digest(content) != file.digest:
        raise StoreError(f"{path} is not what was published; plan anew")
    return list(read_labels(content.decode().splitlines()))


def read_all(folder: Path, plan: PublishedPlan) -> Iterator[Labels]:
    """All labels of a plan, bucket by bucket."""
    for file in plan.files:
        yield from read_bucket(folder, plan, file.bucket)


def read_client(folder: Path, plan: PublishedPlan, client: str) -> list[Labels]:
    """The labels of one client, one for each table it asks."""
    return [one for one in read_bucket(folder, plan, bucket_of(client, plan.buckets)) if one.client == client]


class LabelsFolder(LockedFolder):
    """The exclusive right to plan into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, f"{folder} is being planned into by another; wait for it")
        try:
            self.newest = read_plan(folder)
        except BaseException:
            self.release()
            raise

    def begin(self, place: Place) -> Begun | PublishedPlan:
        """Begin a plan at a place; where one is published for it already, that one."""
        if self.newest is not None and self._goes_back(place):
            if place == self.newest.place:
                return self.newest
            raise StoreError(
                f"the plan of epoch {self.newest.epoch} holds from position {self.newest.position}; one from "
                f"{place.position} would go back: plan at a later position"
            )
        epoch = 1 if self.newest is None else self.newest.epoch + 1
        begun = Begun(epoch, int(place.position), place.incarnation)
        _write(self.folder / "begun", msgspec.json.encode(begun))
        return begun

    def publish(self, plan: PublishedPlan) -> None:
        """Make a plan count, then forget what is old."""
        expected = 1 if self.newest is None else self.newest.epoch + 1
        if plan.epoch != expected:
            raise StoreError(f"the next plan in {self.folder} has epoch {expected}, not {plan.epoch}")
        if self._goes_back(plan.place):
            assert self.newest is not None
            raise StoreError(f"the next plan in {self.folder} is at a position after {self.newest.position}")
        for file in plan.files:
            if not _labels(self.folder, plan.epoch, file.bucket).exists():
                raise StoreError(f"bucket {file.bucket} of epoch {plan.epoch} was never written to {self.folder}")
        (self.folder / "plans").mkdir(exist_ok=True)
        disk.sync_folder(self.folder)
        _write(_plan(self.folder, plan.epoch), msgspec.json.encode(plan))
        self.newest = plan
        self._forget(plan)

    def _goes_back(self, place: Place) -> bool:
        """True if a place is not after that of the newest plan, in one incarnation."""
        newest = self.newest
        return newest is not None and place.incarnation == newest.incarnation and place.position <= newest.position

    def _forget(self, newest: PublishedPlan) -> None:
        """Remove plans older than the last two, and files of a killed planner in the newest."""
        for epoch in published_epochs(self.folder)[:-KEPT]:
            _plan(self.folder, epoch).unlink(missing_ok=True)
        kept = {f"{epoch:020d}" for epoch in published_epochs(self.folder)}
        for path in (self.folder / "labels").glob("*"):
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)
        named = {_labels(self.folder, newest.epoch, file.bucket).name for file in newest.files}
        for path in (self.folder / "labels" / f"{newest.epoch:020d}").glob("*"):
            if path.name not in named:
                path.unlink(missing_ok=True)


def _plan(folder: Path, epoch: int) -> Path:
    return folder / "plans" / f"{epoch:020d}.json"


def _labels(folder: Path, epoch: int, bucket: int) -> Path:
    return folder / "labels" / f"{epoch:020d}" / f"{bucket:05d}.labels"


def _write(path: Path, content: bytes) -> None:
    """Put a file in its place, whole and durable; two processes may do it at once."""
    replace_file(path, content, draft=path.with_name(f".{path.name}.{os.getpid()}"))


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
