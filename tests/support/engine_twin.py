"""In-process stand-in for the Spark host: it publishes on command."""

import asyncio
from pathlib import Path

from slackwater.core import HostKind, Position
from slackwater.hosting.engine import QueryEngine
from slackwater.hosting.publication import Publication, PublishedStep
from slackwater.hosting.publication_log import PublicationWriter
from slackwater.hosting.step import Registration
from slackwater.log import LocalLog


def on_spark(one: Registration) -> bool:
    return one.host is HostKind.SPARK


class Host:
    """Keeps the queries of a server's log that are Spark's."""

    def __init__(self, server: Path, folder: Path) -> None:
        self._log = LocalLog(server / "log", read_only=True)
        self._said = PublicationWriter(folder)
        self._engine = QueryEngine(on_spark)

    def batch(self) -> int:
        start, end = self._engine.position, self._log.end
        if end > start:
            steps = [
                PublishedStep(step, tuple(self._engine.host.answer(one.number) for one, _ in step.registered))
                for step in self._engine.steps(self._log.read(start, end))
            ]
            incarnation = self._log.lineage.place(end).incarnation
            self._said.publish(Publication(self._said.generation, start, Position(end), tuple(steps), incarnation))
        return int(end)

    async def keep_up(self) -> None:
        while True:
            self.batch()
            await asyncio.sleep(0.005)

    def close(self) -> None:
        self._said.release()
        self._log.close()
