"""Table store, the single writer of a folder of latest, history and quarantine: one commit after the other."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from slackwater.core.aside import finish_aside, put_aside
from slackwater.core.folder_lock import LockedFolder
from slackwater.core.lineage import Place
from slackwater.pipeline.tables.layout import make_folder
from slackwater.pipeline.tables.manifest import (
    Manifest,
    ManifestState,
    RecentFile,
    Settled,
    forget_old,
    read_state,
    write_manifest,
    write_settled,
)

_KEPT_FOLDERS = ("recent", "latest", "history", "quarantine")
CHECKPOINT = "checkpoint"
_PARTS = ("manifest", "settled", *_KEPT_FOLDERS, CHECKPOINT)


class TableStore(LockedFolder):
    """The exclusive right to write a folder, and its state.

    Opening one that a crash left removes the files that do not count.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        super().__init__(
            folder, f"{folder} is being written by another pipeline or load; wait for it, or use another folder"
        )
        try:
            finish_aside(folder, _PARTS)
            self.state = read_state(folder) or self._first()
            self._sweep()
        except BaseException:
            self.release()
            raise

    def _first(self) -> ManifestState:
        settled = Settled()
        manifest = Manifest(0, write_settled(self.folder, 0, settled))
        write_manifest(self.folder, manifest)
        return ManifestState(manifest, settled)

    @property
    def next_version(self) -> int:
        """The version that the next commit will make."""
        return self.state.manifest.version + 1

    def commit(
        self,
        *,
        place: Place | None = None,
        recent: Sequence[RecentFile] | None = None,
        settled: Settled | None = None,
        batches: int | None = None,
        begun: int | None = None,
    ) -> None:
        """Commit a new manifest; tables that are not given stay as they were."""
        now = self.state.manifest
        version = now.version + 1
        manifest = replace(
            now,
            version=version,
            position=now.position if place is None else int(place.position),
            incarnation=now.incarnation if place is None else place.incarnation,
            recent=now.recent if recent is None else tuple(recent),
            settled=now.settled if settled is None else write_settled(self.folder, version, settled),
            batches=now.batches if batches is None else batches,
            begun=now.begun if begun is None else begun,
        )
        write_manifest(self.folder, manifest)
        self.state = ManifestState(manifest, self.state.settled if settled is None else settled)
        forget_old(self.folder, version)

    def begin_anew(self) -> Path:
        """Put all tables aside and begin without any; returns where they are now."""
        aside = put_aside(self.folder, _PARTS)
        self.state = self._first()
        return aside

    def remove(self, paths: Iterable[str]) -> None:
        """Delete files that no longer count."""
        counting = self.state.paths() - {*self.state.settled.retired}
        for path in paths:
            if path not in counting:
                (self.folder / path).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove the leftovers of a crash: drafts, and files of work that was never committed."""
        counting = self.state.paths()
        for top in _KEPT_FOLDERS:
            for folder, _, names in os.walk(self.folder / top):
                for name in names:
                    path = Path(folder) / name
                    if str(path.relative_to(self.folder)) not in counting:
                        path.unlink(missing_ok=True)
        for top in ("manifest", "settled"):
            for draft in (self.folder / top).glob(".*"):
                draft.unlink(missing_ok=True)
