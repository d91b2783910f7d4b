"""World of caching clients: labels change, room runs out, and every answer is compared with the truth.

Besides what holds of subscriptions (`invariants`):

1.  *Caches.* What is held of a table is, as of its position, the rows of the region that is relied on, and that region
    lies within the labels in force at that position under that epoch.
2.  *Answers.* Every answer, from the cache, from a node or from both, equals the truth at its stamped position, and no
    row comes twice. So does one that was found before and is given again while the cache is of the same version.
3.  *Never back.* That position is at least everything that was delivered to the client before the question.
4.  *Leases.* An answer wholly from the cache is given only while the lease lasts.
5.  *Room.* With the network healed no cache holds more than it has room for.
6.  *Convergence.* With the network healed every question that was asked is answered.
"""

from collections.abc import Callable
from random import Random
from typing import cast

from simulation import workload
from simulation.client import SimulatedClient
from simulation.invariants import Invariants, Program, Violation
from simulation.run import Note, Report, play
from simulation.world import Setting, World
from slackwater.client.cache.state import CacheState
from slackwater.client.cache.table import CachedTable
from slackwater.client.live.events import Answered, Questioned, Unanswerable
from slackwater.client.live.replica import Held
from slackwater.core.extent import Categories, Extent, Interval, Missing
from slackwater.core.query import Selection
from slackwater.core.region import EVERYTHING, NOTHING, Box, Region, Side
from slackwater.core.types import Row, Scalar
from slackwater.dissemination.messages import WireRow
from slackwater.kinds.cache.query import CacheText, as_cache
from slackwater.kinds.registry import plain_query
from slackwater.log.records import Registered

COLUMNS = tuple(column.name for column in workload.TABLE.columns)
ROOM = 7
"""Rows that a cache has room for, of the twelve that there may be: labels for everything do not fit."""


def region(random: Random) -> Region:
    """A region to be asked for, or to be pushed: ranges of every kind, categories, nulls, and unions of them."""
    kind = random.random()
    if kind < 0.05:
        return EVERYTHING
    boxes = [Box.of(*_sides(random)) for _ in range(1 if kind < 0.7 else 2)]
    return Region.of(boxes)


def _sides(random: Random) -> list[Side]:
    sides = []
    if random.random() < 0.85:
        low = random.choice((None, round(random.uniform(-20, 80), 1)))
        high = None if random.random() < 0.2 else (low or 0) + round(random.uniform(0, 50), 1)
        ends: Extent = Interval(low, high, random.random() < 0.5, random.random() < 0.5)
        sides.append(Side("price", Missing() if random.random() < 0.05 or ends.empty else ends))
    if random.random() < 0.4:
        grades: set[Scalar] = set(random.sample("abc", random.randint(1, 2)))
        sides.append(Side("grade", Categories(frozenset(grades), random.random() < 0.3)))
    return sides


def selection(wanted: Region) -> Selection:
    """All columns of the rows of a region."""
    return Selection(workload.TABLE.name, COLUMNS, wanted)


class CachingClient(SimulatedClient):
    """A client that asks questions, and whose answers are compared with the truth."""

    answers: "Answers"

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]  # the base class says which
        self._asked: dict[int, tuple[Region, int]] = {}
        self._questions = 0
        self._found: dict[Region, tuple[tuple[int, int], list[WireRow]]] = {}
        """What was found at home, and in which version of the cache: as a program keeps it (`client.cache.service`)."""

    @property
    def cache(self) -> CacheState:
        """The state, which is one with a cache."""
        return cast(CacheState, self.state)

    @property
    def unanswered(self) -> int:
        """How many questions wait."""
        return len(self._asked)

    def question(self) -> None:
        """Ask for a region, often one that was asked for before, or one of which a part is pushed."""
        state, table, now = self.cache, workload.TABLE.name, self.now
        wanted = self.answers.wanted(self._random)
        pushed = state.cached(table)
        if pushed is not None and not pushed.region.empty and self._random.random() < 0.3:
            wanted = wanted.union(Region((self._random.choice(pushed.region.boxes),)))
        delivered = self.delivered()
        as_of = state.at_home(table, wanted, 0, now)
        if as_of is not None:
            self._happened["answered at home"] += 1
            self._note(self.name, f"answers {wanted} at home as of {as_of}")
            own = state.cached(table)
            assert own is not None
            until = state.until if own.live else own.until
            if now >= until:
                raise Violation(f"{self.name}: answered from the cache at {now}, and the lease ended at {until}")
            state.took(table, wanted, as_of)
            self.answers.check(self.name, wanted, as_of, delivered, self._at_home(wanted, own))
            return
        self._questions += 1
        self._asked[self._questions] = (wanted, delivered)
        self._happened["question asked"] += 1
        self._note(self.name, f"asks {self._questions}: {wanted}")
        self.handle(Questioned(self._questions, table, wanted))

    def replied(self, instruction: Answered | Unanswerable) -> None:
        """An answer came, of one position with the cache."""
        wanted, delivered = self._asked.pop(instruction.ref)
        if isinstance(instruction, Unanswerable):
            raise Violation(f"{self.name}: {wanted} was not answered: {instruction.why}")
        home = self._held(instruction.home)
        self._happened["answered by both" if home and instruction.rows else "answered by a node"] += 1
        self.answers.check(self.name, wanted, instruction.as_of, delivered, [*home, *instruction.rows])

    def delivered(self) -> int:
        """The latest position of which this client has anything."""
        held = (one.as_of or 0 for one in self.state.held.values())
        return max(self.state.as_of or 0, self.cache.seen, *held, 0)

    def _at_home(self, wanted: Region, own: CachedTable) -> list[WireRow]:
        """Answer from the cache, reusing the earlier answer while the version is the same."""
        version = (own.ref, own.version)
        known = self._found.get(wanted)
        if known is not None and known[0] == version:
            self._happened["found before"] += 1
            return known[1]
        found = self._held(wanted)
        self._found[wanted] = (version, found)
        return found

    def _held(self, wanted: Region) -> list[WireRow]:
        own = self.cache.cached(workload.TABLE.name)
        rows = [] if own is None or own.rows is None else own.rows.values()
        return [row for row in rows if wanted.contains(dict(zip(COLUMNS, row, strict=True)).get)]


class Answers:
    """The questions of a world, and the truth about them."""

    def __init__(self, random: Random, truth: Callable[[Selection, int], dict[Row, Row]]) -> None:
        self._favourites = [region(random) for _ in range(8)]
        self._truth = truth
        self.checks = 0

    def wanted(self, random: Random) -> Region:
        """A question."""
        return random.choice(self._favourites) if random.random() < 0.8 else region(random)

    def label(self, random: Random) -> Region:
        """Labels: some of what is asked, which is what a planner would push, or anything."""
        if random.random() < 0.1:
            return NOTHING
        some = random.sample(self._favourites, random.randint(1, 4))
        if random.random() < 0.2:
            some.append(region(random))
        return Region.of(box for one in some for box in one)

    def check(self, who: str, wanted: Region, as_of: int, delivered: int, rows: list[WireRow]) -> None:
        """Compare an answer with the truth."""
        self.checks += 1
        if as_of < delivered:
            raise Violation(f"{who}: answered as of {as_of}, and {delivered} had been delivered before the question")
        truth = self._truth(selection(wanted), as_of)
        found = {workload.TABLE.key_of(row): row for row in rows}
        if len(found) != len(rows):
            raise Violation(f"{who}: a row came twice in {rows}")
        if found != truth:
            raise Violation(f"{who}: {wanted} as of {as_of} was answered by {found}, and the truth is {truth}")


class CacheInvariants(Invariants):
    """Invariants of a client with a cache."""

    def _check_answer(self, where: str, program: Program, held: Held, shown: object) -> None:
        if not isinstance(held, CachedTable):
            super()._check_answer(where, program, held, shown)  # type: ignore[arg-type]
            return
        as_of, epoch, number = shown.as_of, shown.epoch, shown.query  # type: ignore[attr-defined]
        before = program.as_of.get(held.ref)
        if as_of is None:
            return
        if before is not None and as_of < before:
            raise Violation(f"{where}: as of {as_of} after {before}")
        program.as_of[held.ref] = as_of
        standing = self._truth.standing(number, as_of)
        cache = None if standing is None else as_cache(standing.query)
        if standing is None or cache is None:
            raise Violation(f"{where}: as of {as_of} no node keeps the cache {number}")
        if standing.epoch != epoch:
            raise Violation(f"{where}: under labels {epoch}, and {standing.epoch} are in force at {as_of}")
        if not cache.pushed.covers(held.region):
            raise Violation(f"{where}: relies on {held.region}, and {cache.pushed} is pushed at {as_of}")
        truth = self._truth.rows(selection(held.region), as_of)
        if held.rows != truth:
            raise Violation(f"{where}: holds {held.rows} of {held.region} as of {as_of}, and the truth is {truth}")
        if program.rows.get(held.ref, {}) != held.rows:
            raise Violation(f"{where}: told {program.rows.get(held.ref)} and holds {held.rows}")


class CachingWorld(World):
    """A world whose clients keep caches and ask questions."""

    client_class = CachingClient
    invariants_class = CacheInvariants

    def __init__(self, seed: int, setting: Setting, note: Note | None) -> None:
        super().__init__(seed, setting, note)
        self.answers = Answers(self.random, self.truth.rows)
        for client in self._caching:
            client.answers = self.answers

    @property
    def _caching(self) -> list[CachingClient]:
        return [client for client in self.clients if isinstance(client, CachingClient)]

    @property
    def checks(self) -> int:
        """How many different things that were shown or answered have been compared with the truth."""
        return self.invariants.checks + self.answers.checks

    def run(self) -> None:
        """As in any world; then no question is open and every cache fits."""
        super().run()
        for client in self._caching:
            if client.unanswered:
                raise Violation(f"{client.name}: {client.unanswered} questions were never answered")
            own = client.cache.cached(workload.TABLE.name)
            if own is not None and len(own.rows or ()) > own.text.limit:
                raise Violation(f"{client.name}: holds {len(own.rows or ())} rows and has room for {own.text.limit}")

    def _plan(self) -> None:
        for nth, client in enumerate(self._caching):
            client.want(str(CacheText(client.name, workload.TABLE.name, 100 if nth % 2 else ROOM)))
            self._at_random(client.question, 60)
            if nth % 2:
                client.want(workload.subscription(self.random))
        self._at_random(self._change, self.setting.changes // 4)
        self.schedule.at(self.setting.chaos - 1, self._rest_of_the_changes)
        self._at_random(lambda: self._relabel(late=False), 25)
        self._at_random(lambda: self._relabel(late=True), 2)
        self._go_wrong()

    def _relabel(self, *, late: bool) -> None:
        """Other labels under a new epoch, as a planner would make them; those that are late change nothing."""
        standing = self.truth.standing_now()
        caches = {
            number: text
            for number, (text, _, _) in self._registrations().items()
            if number in standing and as_cache(standing[number].query) is not None
        }
        if not caches:
            return
        number = self.random.choice(sorted(caches))
        epoch = self.truth.standing_now()[number].epoch + (0 if late else 1)
        self.happened["late labels" if late else "labels"] += 1
        query = plain_query(selection(self.answers.label(self.random)))
        record = Registered(workload.TABLE.name, caches[number], "planner", None, number, epoch, query)
        self.note("log", record)
        self.truth.append([record])


SETTING = Setting(client=CacheState, clients=4)


def run(seed: int, setting: Setting = SETTING, trace: list[str] | None = None) -> Report:
    """Simulate a world of caches; with a list for the trace, write what happens into it."""
    return play(seed, lambda note: CachingWorld(seed, setting, note), trace)
