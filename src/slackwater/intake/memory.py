"""Memory file of an intake: what was taken of each source up to a place of the log, and the log clock there.

The file says up to which *place* it speaks (`core.lineage`): after a restore from a copy the same positions hold other
rows, and what another history took is no repeat here.
"""

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np

from slackwater.admission import Seen
from slackwater.admission.deduplication import MOST_RANGES
from slackwater.admission.identity import of_former
from slackwater.core.durable_file import replace_file
from slackwater.core.errors import LogError, StoreError
from slackwater.core.lineage import FORMER, Place
from slackwater.core.types import Instant, Position
from slackwater.hosting.log_clock import LogClock
from slackwater.intake.request_keys import PlainKey, RequestKeys

Origin: TypeAlias = tuple[str, str]
"""A table and a source: the scope of deduplication."""
_NOWHERE = Place(FORMER, Position(0))


@dataclass(slots=True)
class IntakeMemory:
    """What was taken up to a place. `former`: a version wrote it that knew neither the log clock nor the floor."""

    place: Place = _NOWHERE
    seen: dict[Origin, Seen] = field(default_factory=dict)
    requests: dict[Origin, RequestKeys] = field(default_factory=dict)
    log_clock: LogClock = LogClock()  # noqa: RUF009  an immutable value
    former: bool = False

    def forget(self, table: str) -> None:
        """Forget what a table took: one that is made anew under its name has taken nothing yet."""
        self.seen = {origin: seen for origin, seen in self.seen.items() if origin[0] != table}
        self.requests = {origin: keys for origin, keys in self.requests.items() if origin[0] != table}

    def forget_requests(self, now: Instant) -> None:
        """Forget the idempotency keys out of their window, and the sources that are left without any."""
        for keys in self.requests.values():
            keys.forget(now)
        self.requests = {origin: keys for origin, keys in self.requests.items() if len(keys)}


class _PlainSource(msgspec.Struct):
    table: str
    source: str
    ranges: list[tuple[int, int]]
    recent: list[int]
    floor: int = 0
    requests: list[PlainKey] = []


class _PlainMemory(msgspec.Struct):
    format: int
    position: int
    sources: list[_PlainSource]
    incarnation: int = FORMER
    tick: int = 0
    stamp: int = 0


_FORMAT = 3
_FORMER_FORMAT = 2


def load(path: Path | None) -> IntakeMemory:
    """The saved memory, or an empty one; a damaged file counts as none, since the log has it all."""
    try:
        return IntakeMemory() if path is None else decode(path.read_bytes())
    except OSError:
        return IntakeMemory()


def decode(content: bytes) -> IntakeMemory:
    """The memory from its bytes, or an empty one."""
    try:
        if int.from_bytes(content[:4], "little") != zlib.crc32(content[4:]):
            return IntakeMemory()
        plain = msgspec.msgpack.decode(content[4:], type=_PlainMemory)
    except (ValueError, msgspec.MsgspecError):
        return IntakeMemory()
    if plain.format not in (_FORMAT, _FORMER_FORMAT):
        return IntakeMemory()
    former = plain.format == _FORMER_FORMAT
    return IntakeMemory(
        Place(plain.incarnation, Position(plain.position)),
        {(one.table, one.source): _seen(one, former) for one in plain.sources},
        {(one.table, one.source): RequestKeys(one.requests) for one in plain.sources if one.requests},
        LogClock(Instant(plain.tick), Instant(plain.stamp)),
        former,
    )


def _seen(source: _PlainSource, former: bool) -> Seen:
    starts = np.array([start for start, _ in source.ranges], np.int64)
    ends = np.array([end for _, end in source.ranges], np.int64)
    recent = np.array(source.recent, np.int64)
    if not former:
        return Seen(starts, ends, recent, source.floor)
    # With so many ranges open, holes below the lowest may have been given up in silence.
    cut = 1 if len(starts) >= MOST_RANGES else 0
    return Seen(starts[cut:], ends[cut:], of_former(recent), int(starts[cut]) if cut else 0)


def store(path: Path, memory: IntakeMemory) -> None:
    """Replace the file as a whole: after a crash there is the old one or the new one."""
    try:
        replace_file(path, encode(memory))
    except StoreError as error:
        raise LogError(f"what was taken cannot be written down: {error}") from error


def encode(memory: IntakeMemory) -> bytes:
    """The memory as bytes, after a checksum."""
    sources = []
    for origin in dict.fromkeys((*memory.seen, *memory.requests)):
        seen, keys = memory.seen.get(origin, Seen()), memory.requests.get(origin)
        requests = [] if keys is None else keys.plain()
        sources.append(_PlainSource(*origin, seen.ranges(), seen.recent.tolist(), seen.floor, requests))
    clock, place = memory.log_clock, memory.place
    plain = _PlainMemory(_FORMAT, place.position, sources, place.incarnation, clock.last, clock.latest_stamp)
    content = msgspec.msgpack.encode(plain)
    return zlib.crc32(content).to_bytes(4, "little") + content
