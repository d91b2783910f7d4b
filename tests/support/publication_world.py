"""A log that is copied and restored, a host that publishes from it, and servers that follow; without operators.

The host's values depend on the records of the log and on how it cut them, as bounded values do. It notes all values
after each publication, by edition and position, with the records that they were made from.
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from threading import Lock

import numpy as np

from slackwater.core.errors import PositionGone
from slackwater.core.types import Instant, Position
from slackwater.hosting.publication import Publication, PublishedStep
from slackwater.hosting.publication_log import Cut, PublicationReader, PublicationsReplaced, PublicationWriter
from slackwater.hosting.replica import Replica
from slackwater.hosting.step import Step
from slackwater.log import MemoryLog, MemoryStore, TimePassed
from slackwater.log.extent import LogExtent, PlaceRelation
from slackwater.processing.base import Notifications, Values

QUERIES = 4
Records = tuple[int, ...]
Shown = dict[int, float | None]


def records_of(log: MemoryLog, end: int) -> Records:
    times = [
        entry.record.time for entry in log.read(Position(0), Position(end)) if isinstance(entry.record, TimePassed)
    ]
    assert len(times) == end
    return tuple(int(time) for time in times)


def copied(store: MemoryStore) -> MemoryStore:
    return replace(store, kept=[*store.kept], written=False, guard=Lock())


def shown(replica: Replica) -> Shown:
    return {number: replica.value(number) for number in range(QUERIES) if number in replica._values}


@dataclass(frozen=True)
class Noted:
    """What a host had published by then, and the records it was made from."""

    values: Shown
    records: Records


class World:
    """Everything that happens follows from the seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        self.folder = folder / "host"
        self.copy_folder = folder / "copy"
        self.record = 0
        self.log = MemoryLog()
        self.copies = [MemoryStore()]
        self.noted: dict[tuple[int, int], Noted] = {}
        self.writer: PublicationWriter | None = PublicationWriter(self.folder)
        self.readers = [self.reader() for _ in range(3)]
        self.begun_anew = self.replaced = self.abandoned = self.compared = 0

    def extent(self) -> LogExtent:
        return LogExtent.of(self.log)

    def reader(self) -> PublicationReader:
        return PublicationReader(self.folder, self.extent)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.release()
            self.writer = None

    # ---- the log

    def append(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            self.record += 1
            self.log.append([TimePassed(Instant(self.record))])

    def open(self, store: MemoryStore) -> None:
        self.log.close()
        self.log = MemoryLog(store)

    def copy(self) -> None:
        self.copies = [*self.copies[-3:], copied(self.log._store)]

    def restore(self) -> None:
        store = copied(self.random.choice(self.copies))
        if self.random.random() < 0.3:
            # At first it can only be read: no writer has opened it.
            self.log.close()
            self.log = MemoryLog(store, read_only=True)
            self.look()
            self.publish()
        self.open(store)
        if self.random.random() < 0.5:
            self.append()

    # ---- the host

    def publish(self) -> None:
        """What a Spark host does with a batch."""
        writer = self.writer
        if writer is None:
            return
        extent = self.extent()
        relation = extent.relation(writer.replica.place)
        if relation is PlaceRelation.AHEAD:
            return
        if relation is PlaceRelation.FOREIGN:
            writer.begin_anew()
            self.begun_anew += 1
        cut = writer.begun()
        if cut is not None:
            relation = extent.relation(cut.place)
            if relation is PlaceRelation.AHEAD:
                return
            if relation is PlaceRelation.FOREIGN:
                writer.abandon()
                self.abandoned += 1
                cut = None
        if cut is None:
            start = int(writer.replica.position)
            end = Position(min(extent.end, start + self.random.randint(1, 8)))
            if end == start:
                return
            cut = Cut(start, end, 0, extent.place(end).incarnation)
            writer.begin(cut)
        if self.random.random() < 0.3:
            return  # it dies, or the log is replaced, before the batch is done
        records = records_of(self.log, cut.end)
        number = (cut.start + len(records)) % QUERIES
        value = float(hash((number, cut.start, records)) % 2**40) + self.random.random()
        values = Values(np.array([number]), np.array([value]), np.array([True]))
        steps = (PublishedStep(Step(Notifications(Position(cut.end), values))),)
        start, end = Position(cut.start), Position(cut.end)
        writer.publish(Publication(writer.generation, start, end, steps, cut.incarnation))
        self.noted[writer.editions.current, cut.end] = Noted(shown(writer.replica), records)
        if self.random.random() < 0.2:
            writer.write_snapshot()
            if self.random.random() < 0.7:
                writer.forget_before(self.random.randint(0, cut.end))

    def restart(self) -> None:
        self.close()
        self.writer = PublicationWriter(self.folder)

    def keep_folder(self) -> None:
        """Copy the publication log, or put an earlier copy back; no host is at work then."""
        self.close()
        if self.copy_folder.exists() and self.random.random() < 0.5:
            shutil.rmtree(self.folder)
            self.copy_folder.rename(self.folder)
        else:
            shutil.rmtree(self.copy_folder, ignore_errors=True)
            shutil.copytree(self.folder, self.copy_folder)
        self.writer = PublicationWriter(self.folder)

    # ---- the servers

    def look(self) -> None:
        for nth, reader in enumerate(self.readers):
            if self.random.random() < 0.1:
                self.readers[nth] = reader = self.reader()
            for _ in range(self.random.choice([1, 1, 3, 25, 250])):
                try:
                    found = reader.next()
                except (PositionGone, PublicationsReplaced):
                    self.replaced += 1
                    self.readers[nth] = reader = self.reader()
                    continue
                if found is not None:
                    reader.replica.apply(found)
                self.compare(reader)

    def compare(self, reader: PublicationReader) -> None:
        """Values shown are those published at that place, from the records that the log has there."""
        replica = reader.replica
        if replica.position == 0:
            assert not shown(replica)
            return
        if reader._in_vain % 20 != 1 and reader._in_vain:
            return  # the log was not looked at
        noted = self.noted[replica.edition, replica.position]
        assert shown(replica) == noted.values, "values of two editions are mixed"
        if reader.doubt is None:
            assert self.extent().relation(replica.place) is PlaceRelation.HELD
            assert replica.position <= self.log.end
            assert noted.records == records_of(self.log, replica.position), "values of another history"
            self.compared += 1

    def step(self) -> None:
        act = self.random.choices(
            [
                self.append,
                self.publish,
                self.look,
                self.copy,
                self.restore,
                self.restart,
                self.keep_folder,
                self.reopen,
            ],
            [30, 40, 30, 6, 6, 4, 2, 3],
        )[0]
        act()

    def reopen(self) -> None:
        self.open(self.log._store)

    def settle(self) -> None:
        """Everybody is live again by itself."""
        self.append()
        for _ in range(10_000):
            self.publish()
            if self.writer is not None and self.writer.replica.position == self.log.end:
                break
        for _ in range(4):
            self.look()
        for nth, reader in enumerate(self.readers):
            for _ in range(1_000):
                try:
                    found = reader.next()
                except (PositionGone, PublicationsReplaced):
                    self.readers[nth] = reader = self.reader()
                    continue
                if found is not None:
                    reader.replica.apply(found)
                elif reader.replica.position == self.log.end:
                    break
            assert reader.replica.position == self.log.end
            assert reader.doubt is None
            self.compare(reader)


def history(seed: int, folder: Path, steps: int) -> World:
    """One history."""
    world = World(seed, folder)
    try:
        for _ in range(steps):
            world.step()
        world.settle()
    finally:
        world.close()
    return world
