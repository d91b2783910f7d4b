"""Seeded run: one seed, one replayable run, with a trace to read after a violation.

>>> report = run(1)
>>> report.violation is None, report.changes >= 200
(True, True)
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from simulation.clock import Schedule
from simulation.invariants import Violation
from simulation.world import Setting, World

_ADDRESS = re.compile(r"<msgspec\.Raw object at 0x[0-9a-f]+>")
"""Where something lies in memory is not part of a run."""


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a run."""

    seed: int
    violation: str | None
    """The first promise that was not kept, and when."""
    changes: int
    checks: int
    """How many different things that were shown have been compared with the truth."""
    happened: Counter[str] = field(default_factory=Counter)
    """How often each kind of fault and of state was met."""


class Playable(Protocol):
    """A world of any kind."""

    schedule: Schedule
    happened: Counter[str]

    @property
    def changes(self) -> int:
        """How much of the data has changed."""
        ...

    @property
    def checks(self) -> int:
        """How many different things that were shown have been compared with the truth."""
        ...

    def run(self) -> None:
        """Let everything happen."""
        ...


Note: TypeAlias = Callable[[int, str, object], None]


def run(seed: int, setting: Setting | None = None, trace: list[str] | None = None) -> Report:
    """Simulate a world; with a list for the trace, write what happens into it."""
    return play(seed, lambda note: World(seed, setting or Setting(), note), trace)


def play(seed: int, make: Callable[[Note | None], Playable], trace: list[str] | None = None) -> Report:
    """Simulate a world of any kind."""

    def note(now: int, who: str, what: object) -> None:
        if trace is not None:
            trace.append(f"{now / 1e6:10.6f}  {who:10}  {_ADDRESS.sub('<encoded rows>', str(what))}")

    world = make(None if trace is None else note)
    violation = None
    try:
        world.run()
    except Violation as found:
        violation = f"at {world.schedule.now / 1e6:.6f} s: {found}"
        note(world.schedule.now, "VIOLATION", found)
    return Report(seed, violation, world.changes, world.checks, world.happened)


def traced(seed: int, setting: Setting | None = None) -> Iterator[str]:
    """The lines of a run's trace."""
    trace: list[str] = []
    report = run(seed, setting, trace)
    yield from trace
    yield f"seed {seed}: {report.violation or 'every promise was kept'}"
