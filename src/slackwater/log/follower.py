"""Log follower: read-only view of a local log that another process may be writing."""

import os
from pathlib import Path
from threading import Lock

from slackwater.core import disk
from slackwater.core.errors import LogCorrupt, LogError
from slackwater.core.lineage import Lineage
from slackwater.core.types import Position
from slackwater.log.frame import BadFrame, heads
from slackwater.log.lock import writers_shut_out
from slackwater.log.mark import read_mark
from slackwater.log.records import CATALOG_KINDS
from slackwater.log.segment import SUFFIX, Segment, segment_files
from slackwater.log.tail import settle
from slackwater.log.view import View, chain

_ATTEMPTS = 100
"""Retries of a refresh while segments are dropped under it."""


class Follower:
    """Read-only log over a folder; each call refreshes its view of what is durable."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._guard = Lock()
        self._view: View | None = None
        self._listed: dict[str, int] = {}
        self.look()

    def look(self) -> View:
        """Refreshed view of what may be read."""
        with self._guard:
            former = self._view
            for _ in range(_ATTEMPTS):
                try:
                    view = self._look()
                except FileNotFoundError:
                    # The writer dropped a segment between the listing and the reading.
                    continue
                except LogCorrupt:
                    if self._view is None and self._listing() == self._listed:
                        self._view = former
                        raise
                    # Segments may have been replaced in between: by a new writer, or from a copy.
                    self._view = None
                    continue
                except OSError as error:
                    raise LogError(f"the log at {self._folder} cannot be read: {error.strerror}") from error
                if view is not None:
                    self._view = view
                    return view
        raise LogError(f"the log at {self._folder} changes faster than it can be read; try again")

    @property
    def lineage(self) -> Lineage:
        """The incarnations in a refreshed view."""
        return self.look().lineage

    def known(self) -> View:
        """View of the last refresh."""
        if self._view is None:
            raise LogError(f"the log at {self._folder} is being replaced; try again")
        return self._view

    def close(self) -> None:
        """Nothing is held."""

    def _listing(self) -> dict[str, int]:
        """Names and inodes of the segments."""
        with os.scandir(self._folder) as entries:
            return {entry.name: entry.inode() for entry in entries if entry.name.endswith(SUFFIX)}

    def _look(self) -> View | None:
        if self._view is not None and self._view.last.replaced:
            # A restore from a copy, or all that was known was dropped: nothing of the former view counts.
            self._view = None
        with writers_shut_out(self._folder) as alone:
            # The mark first: the segments listed afterwards then reach at least as far.
            mark = read_mark(self._folder)
            files = segment_files(self._folder)
            if not files:
                raise LogError(f"there is no log at {self._folder}: it holds no segments")
            self._listed = self._listing()
            length = files[-1].stat().st_size
        if alone:
            return self._everything(files, length, mark)
        return self._upto_mark(files, mark)

    def _everything(self, files: list[Path], length: int, mark: Position | None) -> View:
        """Without a writer: all complete records, flushed to disk first."""
        segments = self._chained(files)
        last = segments[-1]
        before = last.size
        with disk.opened(last.path) as descriptor:
            try:
                settle(last, descriptor, max(length, before), mark)
            finally:
                if last.size > before:
                    disk.sync(descriptor)
        return View(segments, last.end, last.catalog)

    def _upto_mark(self, files: list[Path], mark: Position | None) -> View | None:
        """With a live writer: its mark is the end; without a mark, finished segments are durable."""
        firsts = [Position(int(file.name[:20])) for file in files]
        durable = firsts[-1] if mark is None else mark
        if self._view is not None:
            durable = max(durable, self._view.end)
        if durable < firsts[0]:
            return None  # all that the mark spoke of was dropped since
        segments = self._chained([file for file, first in zip(files, firsts, strict=True) if first <= durable])
        last = segments[-1]
        with disk.opened(last.path) as descriptor:
            self._grow(last, descriptor, last.path.stat().st_size, durable)
        return View(segments, durable, last.catalog)

    @staticmethod
    def _grow(segment: Segment, descriptor: int, length: int, durable: Position) -> None:
        if segment.end >= durable:
            return
        try:
            for head in heads(descriptor, segment.size, length, segment.end, segment.header.salt):
                if head.kind in CATALOG_KINDS:
                    segment.define(segment.record(descriptor, head))
                segment.grow(head.first, head.offset, head.end, head.next_offset)
                if head.end >= durable:
                    break
        except BadFrame as bad:
            raise bad.corrupt(segment.path.name) from None
        if segment.end != durable:
            raise LogCorrupt(
                f"{segment.path.name} ends at position {segment.end}, but everything before {durable} had been "
                f"written durably"
            )

    def _chained(self, files: list[Path]) -> tuple[Segment, ...]:
        known = () if self._view is None else self._view.segments
        if [file.name for file in files] == [segment.path.name for segment in known]:
            return known
        return chain(files, known)
