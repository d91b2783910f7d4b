"""World of an intake: senders, a network that loses, repeats and reorders, crashes, restores, a wall clock that jumps.

The intake is the real one over the in-memory log. Its server dies before an append, after it, and with a part of it
kept; what it remembers was saved then, or is lost. The log is put back from an older copy, with the memory of that
copy, with the present one, or without. The windows are narrow, so that rows fall out of them, and days pass, so that
keys do.

>>> report = run(1)
>>> report.violation is None, report.changes > 50
(True, True)
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random

import pyarrow as pa

from simulation.clock import Schedule
from simulation.intake_history import DATED, GIVEN, UNDATED, History, SentRequest, SentRow
from simulation.invariants import Violation
from simulation.run import Note, Report, play
from slackwater.admission import deduplication
from slackwater.core.arrival import Arrival
from slackwater.core.arrow import EVENT_TIME, INSTANT, SEQUENCE
from slackwater.core.types import Instant, Position
from slackwater.intake import Intake, IntakeReceipt, RequestKeyReused
from slackwater.intake.memory import IntakeMemory, decode, encode
from slackwater.log import MemoryLog, MemoryStore, Record

SECOND = 1_000_000
HOUR = 3600 * SECOND
LASTS = 40 * SECOND
HEALS = 25 * SECOND
"""From here on nothing is lost and nothing dies: what was sent must be acknowledged by the end."""
RANGES = 4
"""Ranges of numbers that are remembered for a source."""
BEGIN = 1_700_000_000 * SECOND
KEYS = ("a", "b", "c", "d")


class Died(Exception):
    """The server died in the middle of an append."""


class MortalLog(MemoryLog):
    """A log whose process may die in an append, having kept none, some or all of its records."""

    keeps: int | None = None
    """How many records the next append keeps before it dies; None: it lives."""

    def append(self, records: Sequence[Record]) -> Position:
        """Append, or die."""
        if self.keeps is None:
            return super().append(records)
        kept = records[: self.keeps]
        if kept:
            super().append(kept)
        raise Died


class WanderingClock:
    """A wall clock that is set back and forth, by hours."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.offset = BEGIN
        self.latest = Instant(0)

    def now(self) -> Instant:
        """What it shows."""
        shown = Instant(self.offset + self._schedule.now)
        self.latest = max(self.latest, shown)
        return shown

    def sleep(self, seconds: float) -> None:
        """Nothing here waits."""


@dataclass(slots=True)
class Saved:
    """Where a simulated intake saves its memory."""

    content: bytes | None = None


class SimulatedIntake(Intake):
    """The real intake; what it remembers is saved in the world and not in a file."""

    def __init__(self, log: MemoryLog, clock: WanderingClock, saved: Saved) -> None:
        self._place_of_memory = saved
        super().__init__(log, clock)

    def _read_memory(self) -> IntakeMemory:
        content = self._place_of_memory.content
        return IntakeMemory() if content is None else decode(content)

    def _write_memory(self, memory: IntakeMemory) -> None:
        self._place_of_memory.content = encode(memory)

    def _put_aside(self, memory: IntakeMemory) -> None:
        self._place_of_memory.content = None


@dataclass(frozen=True, slots=True)
class IntakeSetting:
    """What a world is made of."""

    intake: type[SimulatedIntake] = SimulatedIntake


class Sender:
    """A source of requests: numbered, under keys, daily under one key, with times of their own, or plain."""

    def __init__(self, kind: str, source: str, random: Random, marks: Iterator[int]) -> None:
        self.kind, self.source = kind, source
        self._random, self._marks = random, marks
        self._numbers = _numbers(random)
        self._requests = 0
        self._daily: tuple[SentRequest, Instant] | None = None

    def request(self, wall: Instant) -> SentRequest | None:
        """The next request, if it is time for one."""
        random, many = self._random, self._random.randint(1, 4)
        if self.kind == "daily":
            if self._daily is not None and (not self._daily[0].acknowledged or wall < self._daily[1] + 20 * HOUR):
                return None
            request = SentRequest(UNDATED, self.source, tuple(self._row() for _ in range(many)), "daily")
            self._daily = request, wall
            return request
        self._requests += 1
        if self.kind == "numbered":
            numbers = sorted(next(self._numbers) for _ in range(many))
            return SentRequest(UNDATED, self.source, tuple(replace(self._row(), number=one) for one in numbers))
        if self.kind == "timed":
            table = random.choice((DATED, GIVEN))
            ahead = random.choice((-HOUR, 0, HOUR, 17 * HOUR, 40 * HOUR))
            rows = tuple(replace(self._row(), time=Instant(wall + ahead + nth)) for nth in range(many))
            return SentRequest(table, self.source, rows)
        key = f"request {self._requests}" if self.kind == "keyed" else None
        return SentRequest(UNDATED, self.source, tuple(self._row() for _ in range(many)), key)

    def _row(self) -> SentRow:
        random = self._random
        key = None if random.random() < 0.05 else random.choice(KEYS)
        return SentRow(next(self._marks), key)


def _numbers(random: Random) -> Iterator[int]:
    """Numbers with gaps, of which some are filled late, and some never."""
    begin = 0
    while True:
        block = list(range(begin, begin + 12))
        begin += 12
        if random.random() < 0.5:
            block = block[::2] + block[1::2]
        elif random.random() < 0.5:
            random.shuffle(block)
        yield from block[: random.choice((8, 12, 12))]


class IntakeWorld:
    """One run; see the module."""

    def __init__(self, seed: int, setting: IntakeSetting, note: Note | None) -> None:
        self.random = Random(seed)
        self.schedule = Schedule()
        self.happened: Counter[str] = Counter()
        self.checks = 0
        self._setting = setting
        self._noted = note
        self._wall = WanderingClock(self.schedule)
        self._days = 0
        self._store = MemoryStore()
        self._saved = Saved()
        self._copies: list[tuple[MemoryStore, bytes | None]] = []
        self._requests: list[SentRequest] = []
        self._history = History()
        self._histories = 0
        marks = iter(range(10**9))
        kinds = ("numbered", "numbered", "keyed", "daily", "timed", "plain")
        self._senders = [Sender(kind, f"{kind} {nth}", self.random, marks) for nth, kind in enumerate(kinds)]
        self._log: MortalLog
        self._intake: SimulatedIntake | None = None

    @property
    def changes(self) -> int:
        """Rows in the history."""
        return self._history.rows

    def run(self) -> None:
        """Let everything happen."""
        with _narrow():
            self._open()
            for sender in self._senders:
                self.schedule.after(self.random.randrange(SECOND), partial(self._send_next, sender))
            for event in (self._set_clock, self._pass_a_day, self._save, self._copy, self._crash, self._restore):
                self.schedule.after(self.random.randrange(1, 8 * SECOND), partial(self._again, event))
            self.schedule.run(LASTS)
            for request in self._requests:
                if not request.acknowledged:
                    raise Violation(f"a request of {request.source} is not acknowledged in the end")
                if not request.void:
                    self._history.check(request)
                    self.checks += 1
            self.checks += self._history.check_latest()

    @property
    def _healed(self) -> bool:
        return self.schedule.now >= HEALS

    def _again(self, event: Callable[[], None]) -> None:
        if not self._healed:
            event()
            self.schedule.after(self.random.randrange(SECOND, 10 * SECOND), partial(self._again, event))

    # ---- senders and network

    def _send_next(self, sender: Sender) -> None:
        if self._healed:
            return
        request = sender.request(self._wall.now())
        if request is not None:
            self._requests.append(request)
            self._send(request)
        self.schedule.after(self.random.randrange(SECOND // 2, 2 * SECOND), partial(self._send_next, sender))

    def _send(self, request: SentRequest) -> None:
        """Send it, and again later if no receipt comes."""
        if request.acknowledged:
            return
        for _ in range(self._copies_of_message()):
            self.schedule.after(self._delay(), partial(self._arrive, request))
        self.schedule.after(self.random.randrange(SECOND, 4 * SECOND), partial(self._send, request))

    def _copies_of_message(self) -> int:
        if self._healed:
            return 1
        chance = self.random.random()
        self.happened["message lost" if chance < 0.15 else "message repeated" if chance > 0.85 else "message"] += 1
        return 0 if chance < 0.15 else 2 if chance > 0.85 else 1

    def _delay(self) -> int:
        slow = not self._healed and self.random.random() < 0.2
        return self.random.randrange(1000, 6 * SECOND if slow else 50_000)

    def _acknowledge(self, request: SentRequest, history: int) -> None:
        if history == self._histories:
            request.acknowledged = True

    # ---- the server

    def _arrive(self, request: SentRequest) -> None:
        if self._intake is None:
            return
        known = sum(self._history.has(row) for row in request.rows)
        again = (request.source, request.key) in self._history.keys
        if not self._healed and self.random.random() < 0.06:
            self._log.keeps = self.random.choice((0, 1, 1, 99))
        try:
            receipt = self._take(request)
        except Died:
            self.happened["died in an append"] += 1
            self._down()
            return
        except RequestKeyReused:
            self._log.keeps = None
            self._history.check_refusal(request, self._intake.now())
            self.happened["key of another request"] += 1
            request.acknowledged = request.void = True
            return
        self._log.keeps = None
        self._history.read(self._log, self._wall.latest)
        self._history.check_receipt(request, receipt, known)
        self._count(receipt, again)
        self._note("server", receipt)
        for _ in range(self._copies_of_message()):
            self.schedule.after(self._delay(), partial(self._acknowledge, request, self._histories))

    def _take(self, request: SentRequest) -> IntakeReceipt:
        assert self._intake is not None
        rows = request.rows
        columns: dict[str, pa.Array] = {
            "k": pa.array([row.key for row in rows], pa.string()),
            "mark": pa.array([row.mark for row in rows], pa.int64()),
        }
        if rows[0].number is not None:
            columns[SEQUENCE] = pa.array([row.number for row in rows], pa.int64())
        if rows[0].time is not None:
            name = EVENT_TIME if request.table is GIVEN else "at"
            columns[name] = pa.array([row.time for row in rows], pa.int64()).cast(INSTANT)
        arrival = Arrival(request.table.name, request.source, pa.RecordBatch.from_pydict(columns), "a sender")
        return self._intake.take([arrival], request.request_key)

    def _count(self, receipt: IntakeReceipt, again: bool) -> None:
        self.happened["key used again"] += again and receipt.accepted > 0
        promised = receipt.promised
        self.checks += 1
        self.happened["repeat"] += receipt.repeats
        self.happened["outside the window"] += promised.outside_window
        self.happened["request repeated"] += receipt.request_repeated

    def _open(self) -> None:
        self._log = MortalLog(self._store)
        self._intake = self._setting.intake(self._log, self._wall, self._saved)
        for table in (UNDATED, GIVEN, DATED):
            self._intake.define(table)
        self._history = History()
        self._history.read(self._log, self._wall.latest)

    def _down(self) -> None:
        self._log.close()
        self._intake = None
        if self.random.random() < 0.3:
            self._saved.content = None
            self.happened["memory lost"] += 1
        self.schedule.after(SECOND // 2, self._up)

    def _up(self) -> None:
        if self._intake is None:
            self._open()

    # ---- what befalls it

    def _set_clock(self) -> None:
        self._wall.offset = BEGIN + self._days + self.random.randrange(-5 * HOUR, 5 * HOUR)
        self.happened["wall clock set"] += 1

    def _pass_a_day(self) -> None:
        passed = self.random.randrange(20 * HOUR, 40 * HOUR)
        self._days += passed
        self._wall.offset += passed
        self.happened["day passed"] += 1

    def _save(self) -> None:
        if self._intake is not None:
            self._intake.save()

    def _crash(self) -> None:
        if self._intake is not None:
            self.happened["died"] += 1
            self._down()

    def _copy(self) -> None:
        self._copies.append((_copied(self._store), self._saved.content))

    def _restore(self) -> None:
        if not self._copies or self._intake is None or self.random.random() < 0.5:
            return
        self._intake.save()
        self._log.close()
        self._histories += 1
        store, memory = self.random.choice(self._copies)
        self._store = _copied(store)
        which = self.random.choice(("the copy's", "the present", "no"))
        self._saved.content = {"the copy's": memory, "the present": self._saved.content, "no": None}[which]
        self.happened[f"restored with {which} memory"] += 1
        self._open()
        for request in self._requests:
            if request.acknowledged and not all(
                row.mark in self._history.refused or self._history.has(row) for row in request.rows
            ):
                self._lose(request)

    def _lose(self, request: SentRequest) -> None:
        """The history that acknowledged it is gone; its sender may send it again."""
        if self.random.random() < 0.5:
            request.void = True
            return
        request.acknowledged = request.void = False
        self._send(request)

    def _note(self, who: str, what: object) -> None:
        if self._noted is not None:
            self._noted(self.schedule.now, who, what)


def _copied(store: MemoryStore) -> MemoryStore:
    """A cold copy: the records as they are now, to be opened by another writer."""
    return MemoryStore(list(store.kept), store.start, store.end, store.dropped, store.catalog, store.lineage)


@contextmanager
def _narrow() -> Iterator[None]:
    """Few ranges are remembered, so that a short run leaves the window."""
    before = deduplication.MOST_RANGES
    deduplication.MOST_RANGES = RANGES
    try:
        yield
    finally:
        deduplication.MOST_RANGES = before


def run(seed: int, setting: IntakeSetting | None = None, trace: list[str] | None = None) -> Report:
    """Simulate a world of an intake."""
    return play(seed, lambda note: IntakeWorld(seed, setting or IntakeSetting(), note), trace)


def traced(seed: int, setting: IntakeSetting | None = None) -> Iterator[str]:
    """The lines of a run's trace."""
    trace: list[str] = []
    report = run(seed, setting, trace)
    yield from trace
    yield f"seed {seed}: {report.violation or 'every promise was kept'}"
