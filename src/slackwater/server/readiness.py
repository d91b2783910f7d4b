"""Readiness of a node: whether it can do all of its work at the moment, and if not, why not.

Not ready is a node whose writer cannot write, whose disk has no room, which does not come on in its log, or whose log
does not answer. It goes on serving what it has: readiness is for those that choose where to send work.

Room is looked for where the node writes, by taking some and giving it back. A failed append counts until one succeeds,
or, where there is room again, for a few seconds: then the next one has to show it.
"""

import asyncio
import os
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slackwater.core import disk
from slackwater.core.errors import SlackwaterError
from slackwater.core.types import Position
from slackwater.log.jetstream import JetStreamLog

if TYPE_CHECKING:
    from slackwater.server.node import Node

ROOM_BYTES = 256 * 1024
"""Bytes that must be free for a disk to count as writable."""
LOOK_SECONDS = 1.0
FINE_SECONDS = 5.0
"""Seconds between two looks while all is well."""
STUCK_SECONDS = 10.0
"""Seconds without a step, while the log goes on, after which a node counts as stuck."""
FAILED_SECONDS = 5.0
"""Seconds for which a failed append counts although there is room."""
PROBE_FILE = ".room"
"""File that takes the room that is looked for; gone a moment later."""

_REFUSED = (OSError, RuntimeError)
"""Exceptions of a system that is short of something; where it gives no thread, that is a `RuntimeError`."""


@dataclass(slots=True)
class _Progress:
    """Position that was reached last, and when."""

    position: Position
    since: float


class Readiness:
    """Looks at the disk, the log and the progress of a node."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        log = node.settings.log
        own = isinstance(log, Path) and node.writable
        self._folders = [node.settings.folder, *([log] if own and isinstance(log, Path) else [])]
        self._progress = _Progress(node.engine.position, time.monotonic())
        self._looking_since: float | None = None
        self._disk: str | None = None
        self._log: str | None = None

    def reason(self) -> str | None:
        """Why the node is not ready; None if it is."""
        node = self._node
        if node.failure is not None:
            return f"the node cannot go on: {node.failure}"
        if not node.ready:
            return "the node is not running"
        now = time.monotonic()
        if self._looking_since is not None and now - self._looking_since > STUCK_SECONDS:
            return f"the disk has not answered for {now - self._looking_since:.0f} s"
        return self._disk or node.write_trouble(FAILED_SECONDS) or self._log or self._unread(now) or self._stuck(now)

    def look_at_disk(self) -> None:
        """Look for room where the node writes; for any thread."""
        self._disk = next((why for folder in self._folders if (why := _no_room(folder)) is not None), None)

    def look_at_progress(self) -> None:
        """Look whether the node came on since the last look, or is at the end of its log."""
        position = self._node.engine.position
        if position == self._progress.position:
            end = self._end()
            # An end that is not known is no sign that there is nothing to do.
            if end is None or end > position:
                return
        self._progress = _Progress(position, time.monotonic())

    def work(self) -> list[Coroutine[None, None, None]]:
        """Coroutines that look, until cancelled."""
        log = self._node.log
        servers = [self._watch_servers(log)] if isinstance(log, JetStreamLog) else []
        return [self._watch_progress(), self._watch_disk(), *servers]

    async def _watch_progress(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look_at_progress()

    async def _watch_disk(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS if self._disk else FINE_SECONDS)
            self._looking_since = time.monotonic()
            try:
                await asyncio.to_thread(self.look_at_disk)
            except _REFUSED as error:
                self._disk = f"the disk could not be looked at: {error}"
            self._looking_since = None

    async def _watch_servers(self, log: JetStreamLog) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS if self._log else FINE_SECONDS)
            try:
                await asyncio.to_thread(log.check_servers)
                self._log = None
            except SlackwaterError as error:
                self._log = str(error)
            except _REFUSED as error:
                self._log = f"the servers of the log could not be asked: {error}"

    def _unread(self, now: float) -> str | None:
        away = self._node.follower.away_since
        if away is None or now - away <= STUCK_SECONDS:
            return None
        return f"the log could not be read for {now - away:.0f} s; the server's reports say why"

    def _stuck(self, now: float) -> str | None:
        late = now - self._progress.since
        if late <= STUCK_SECONDS:
            return None
        end = self._end()
        ends = "and where its log ends is unknown" if end is None else f"while its log ends at {end}"
        return f"the node has been at position {self._progress.position} for {late:.0f} s, {ends}"

    def _end(self) -> Position | None:
        # What follows the log meets the same error, and decides what becomes of the node.
        with suppress(SlackwaterError, OSError):
            return self._node.log_end()
        return None


def _no_room(folder: Path) -> str | None:
    """Why nothing can be written to a folder; None if something can."""
    path = folder / PROBE_FILE
    try:
        try:
            with disk.opened(path, os.O_WRONLY | os.O_CREAT) as descriptor:
                disk.reserve(descriptor, ROOM_BYTES)
        finally:
            with suppress(OSError):
                path.unlink()
    except OSError as error:
        if disk.is_full(error):
            return f"read only: the disk is full at {folder}; free some space"
        return f"read only: the disk at {folder} cannot be written: {error.strerror or error}"
    return None
