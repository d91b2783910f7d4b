"""Simulated world whose log is restored from copies: several histories, and what clients show of each.

One node writes the log and begins an incarnation with each of its lives; the others follow. Now and then the log is
put back to how it was at an earlier moment, with or without the snapshots and the generation of the writer, and what is
written afterwards takes the positions of what was lost. Followers and clients find out by themselves, whenever they
look. What a client shows is compared with the truth of the history that it names.

>>> report = run(1)
>>> report.violation is None, report.happened["restored"] > 0
(True, True)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from simulation import run as runs
from simulation.invariants import Invariants, Program, Violation
from simulation.node import SimulatedNode
from simulation.run import Report
from simulation.truth import Truth
from simulation.world import Setting, World
from slackwater.client.live.events import Shown
from slackwater.client.live.replica import Held
from slackwater.client.live.state import ClientState
from slackwater.core.lineage import Lineage
from slackwater.core.types import Position
from slackwater.sessions.events import IncarnationBegun


class HistoryNode(SimulatedNode):
    """A node of a log that may be replaced under it. The first node writes the log, the others follow it."""

    begin: Callable[[], int] | None = None
    """Makes the number of the incarnation that a life of the writer begins."""

    def start(self) -> None:
        """Begin a life; the writer opens the log."""
        if self.begin is not None:
            self._truth.lineage = self._truth.lineage.begin(self.begin(), self._truth.end)
            self._truth.writable = True
        super().start()

    def stop(self, *, forget: bool) -> None:
        """End a life; without its writer a log stays as it is."""
        if self.begin is not None:
            self._truth.writable = False
        super().stop(forget=forget)

    def replace_log(self, truth: Truth) -> None:
        """Read another log from now on, in the place of the one there was."""
        self._truth = truth

    def follow(self) -> None:
        """Read on, unless the log is not the one that was read before: then begin anew."""
        if self.up and self._schedule.now >= self.lagging_until:
            lineage, end = self._truth.lineage, self._truth.end
            if not self.went_on(lineage, end):
                self._happened["history replaced under a follower"] += 1
                self.stop(forget=False)
                self.start()
                return
            begun = lineage.current != self.engine.lineage.current
            self.engine.lineage = lineage
            if begun:
                self._happened["incarnation begun under a follower"] += 1
                self.handle(IncarnationBegun())
        super().follow()

    def went_on(self, lineage: Lineage, end: Position) -> bool:
        """Whether the log has all that was read of it."""
        return self.engine.lineage.went_on(lineage, self.engine.position, end)


class HistoryInvariants(Invariants):
    """The invariants of a session world, each position being one of the history that is named with it."""

    def __init__(self, truth: Truth, nodes: Mapping[str, SimulatedNode], lease: int) -> None:
        super().__init__(truth, nodes, lease)
        self.histories: dict[int, Truth] = {}
        """By incarnation, the log that wrote it."""
        self.present = truth
        self._shown_in: dict[str, int] = {}
        """The incarnation under which each client shows what it has."""

    def check(self, program: Program, state: ClientState, now: int) -> None:
        """Everything but convergence; only another incarnation takes back what was shown."""
        if self._shown_in.get(program.name) != state.incarnation:
            self._shown_in[program.name] = state.incarnation
            program.as_of.clear()
            program.checked.clear()
        super().check(program, state, now)

    def _check_answer(self, where: str, program: Program, held: Held, shown: Shown) -> None:
        if shown.as_of is not None:
            history = self.histories.get(shown.incarnation)
            if history is None:
                raise Violation(f"{where}: as of {shown.as_of} in the history {shown.incarnation}, which never was")
            self._truth = history
        super()._check_answer(where, program, held, shown)

    def check_time(self, name: str, position: int, time: int) -> None:
        """Log time as a node has it at a position of the history it reads."""
        node = self._nodes[name]
        assert isinstance(node, HistoryNode)
        self._truth = self.histories.get(node.engine.lineage.current, self.present)
        super().check_time(name, position, time)

    def converged(self, program: Program, state: ClientState, wanted: Mapping[int, str], now: int) -> str | None:
        """Why a client has not come to the right answers at the end of the present history."""
        self._truth = self.present
        if self.histories.get(state.incarnation) is not self.present:
            return f"{program.name} is in the history {state.incarnation}, not in {self.present.lineage.current}"
        return super().converged(program, state, wanted, now)


@dataclass(frozen=True, slots=True)
class HistorySetting(Setting):
    """Size of a world, and the classes of its nodes, clients and lineages."""

    restores: int = 3
    node: type[HistoryNode] = HistoryNode
    lineage: type[Lineage] = Lineage


class HistoryWorld(World):
    """A session world with restores."""

    invariants_class = HistoryInvariants
    invariants: HistoryInvariants
    setting: HistorySetting

    def __init__(self, seed: int, setting: HistorySetting, note: Callable[[int, str, object], None] | None) -> None:
        self.node_class = setting.node
        super().__init__(seed, setting, note)
        self._incarnations = 0
        self.writer = self.nodes[0]
        assert isinstance(self.writer, HistoryNode)
        self.writer.begin = self._begin
        self._use(self.truth, setting.lineage())
        self.writer.stop(forget=True)
        self.writer.start()
        for node in self.nodes[1:]:
            node.engine.lineage = self.truth.lineage

    def _begin(self) -> int:
        self._incarnations += 1
        self.invariants.histories[self._incarnations] = self.truth
        return self._incarnations

    def _use(self, truth: Truth, lineage: Lineage) -> None:
        """Put a log in the place of the one there was."""
        truth.lineage = lineage
        self.truth = self.invariants.present = truth
        for node in self.nodes:
            assert isinstance(node, HistoryNode)
            node.replace_log(truth)

    def _go_wrong(self) -> None:
        super()._go_wrong()
        self._at_random(self._restore, self.setting.restores)
        self._at_random(self._restart_writer, 1)

    def _kill(self, *, forget: bool) -> None:
        if any(node.up for node in self.nodes):
            super()._kill(forget=forget)

    def _restart_writer(self) -> None:
        if self.writer.up:
            self.writer.take_snapshot()
            self.writer.stop(forget=False)
            self.schedule.after(self.random.randrange(50_000, 600_000), self.writer.start)

    def _restore(self) -> None:
        """Kill the writer and put the log back to how it was at an earlier moment."""
        if not self.writer.up:
            return
        least = max(2, self.truth.end - 60)
        copied = self.random.randrange(min(least, self.truth.end), self.truth.end + 1)
        self.happened["restored"] += 1
        self.note("log", f"is restored to {copied} of {self.truth.end}")
        without_store = self.random.random() < 0.3
        self.writer.stop(forget=without_store or self.random.random() < 0.5)
        if without_store:
            self.happened["restored without its store"] += 1
            self.writer.generation = 0
        truth = self.truth.copy(copied)
        truth.writable = False
        self._use(truth, truth.lineage)
        self.schedule.after(self.random.randrange(50_000, 1_000_000), self.writer.start)


def run(seed: int, setting: HistorySetting | None = None, trace: list[str] | None = None) -> Report:
    """Run one seed; the trace, where wanted, has all that happened."""
    return runs.play(seed, lambda note: HistoryWorld(seed, setting or HistorySetting(), note), trace)
