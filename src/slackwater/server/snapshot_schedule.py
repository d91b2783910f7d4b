"""Snapshot schedule of a node: when the state is written down, and in which process.

A small state is written by the node itself, in a moment. A large one is written by a copy of the process
(`server/forked_task.py`), so that no client waits for it. A snapshot that cannot be written is tried again after a
pause: the log has it all, and a full disk must not end the service.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from slackwater.core.errors import SlackwaterError
from slackwater.core.types import Position
from slackwater.hosting.snapshots import NodeSnapshot
from slackwater.server.forked_task import run_forked

if TYPE_CHECKING:
    from slackwater.server.node import Node

_report = logging.getLogger("slackwater.server")

LOOK_SECONDS = 1.0
AGAIN_SECONDS = 30.0
"""Pause after a snapshot that could not be written."""
SMALL = 5_000
"""Rows and queries of a state that the node writes by itself, in less than a fork and its wake take."""


class SnapshotSchedule:
    """Takes the snapshots of a node, one at a time."""

    def __init__(self, node: "Node", position: Position) -> None:
        self._node = node
        self.position = position
        """Position of the latest snapshot."""
        self.not_before = 0.0
        """Time of the monotonic clock before which none is tried again."""

    async def run(self) -> None:
        """Take a snapshot whenever one is due."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._is_due():
                await self._write_beside()

    def take(self) -> None:
        """Write the state down in this process, unless that was done at this position already."""
        position = self._node.engine.position
        if position > self.position:
            self._told(position, self._written())

    def _is_due(self) -> bool:
        rows = self._node.engine.position - self.position
        return rows >= self._node.settings.snapshot_every and time.monotonic() >= self.not_before

    async def _write_beside(self) -> None:
        engine = self._node.engine
        size = len(engine.registrations) + sum(map(len, engine.host.latest_tables.values()))
        if size <= SMALL:
            self.take()
            return
        position = engine.position
        try:
            await run_forked(self._write)
        except (SlackwaterError, OSError, RuntimeError) as error:
            self._told(position, error)
        else:
            self._told(position, None)

    def _write(self) -> None:
        node = self._node
        position = node.engine.position
        incarnation = node.engine.lineage.place(position).incarnation
        node.snapshots.drop_drafts()
        node.snapshots.write(NodeSnapshot(position, node.engine.snapshot(node.generation), incarnation))

    def _written(self) -> SlackwaterError | None:
        try:
            self._write()
        except SlackwaterError as error:
            return error
        return None

    def _told(self, position: Position, error: Exception | None) -> None:
        if error is None:
            self.position = position
            return
        _report.error("no snapshot at %d: %s", position, error)
        self.not_before = time.monotonic() + AGAIN_SECONDS
