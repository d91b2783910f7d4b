"""Fresh seeds and kills for as long as one likes: `python -m tools.soak --seconds 600 [--seed N]`.

`make test` and `make test-all` certify with seeds that stay the same. This looks where they do not: simulated worlds
of sessions, restores, caches, plans, aggregators, intakes and ingest streams; histories of the Spark host whose workers
die; a log whose writer is killed with `kill -9`. The parts share the time. A violation is reported with its part and
seed, which repeat it, and gives exit code 1.
"""

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 600.0
KILLS = 5
"""Kills of a log's writer in one turn."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one turn of a part covered, and the first promise that was not kept."""

    checks: int = 0
    kills: int = 0
    violation: str | None = None


Part = Callable[[int, Path], Outcome]
"""Runs one seed in a folder of its own."""


@dataclass(slots=True)
class Coverage:
    """What one part covered."""

    seeds: int = 0
    checks: int = 0
    kills: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept, and what repeats it."""

    part: str
    seed: int
    text: str


@dataclass(frozen=True, slots=True)
class Result:
    """A run: its first seed, what each part covered and what went wrong."""

    first: int
    parts: Mapping[str, Coverage]
    violations: Sequence[Violation]

    def text(self) -> str:
        """The report, a line for each part."""
        lines = [f"{'part':<18}{'worlds':>8}{'checks':>12}{'kills':>8}{'seconds':>10}   seeds"]
        for name, one in self.parts.items():
            seeds = f"{self.first}…{self.first + one.seeds - 1}" if one.seeds else "none"
            lines.append(f"{name:<18}{one.seeds:>8}{one.checks:>12}{one.kills:>8}{one.seconds:>10.0f}   {seeds}")
        lines += [f"VIOLATION in {one.part}, seed {one.seed}: {one.text}" for one in self.violations]
        lines.append(f"{len(self.violations)} violations")
        return "\n".join(lines)


def soak(parts: Mapping[str, Part], seconds: float, first: int, clock: Callable[[], float] = time.monotonic) -> Result:
    """Share the time among the parts, each at least one turn; a part with a violation gets no more."""
    covered = {name: Coverage() for name in parts}
    violations: list[Violation] = []
    end = clock() + seconds
    while True:
        going = [name for name in parts if all(name != one.part for one in violations)]
        fresh = [name for name in going if covered[name].seeds == 0]
        if not going or (not fresh and clock() >= end):
            break
        name = fresh[0] if fresh else min(going, key=lambda name: covered[name].seconds)
        one, began = covered[name], clock()
        seed = first + one.seeds
        outcome = _one(parts[name], seed)
        one.seeds, one.checks, one.kills = one.seeds + 1, one.checks + outcome.checks, one.kills + outcome.kills
        one.seconds += clock() - began
        if outcome.violation is not None:
            violations.append(Violation(name, seed, outcome.violation))
    return Result(first, covered, violations)


def _one(part: Part, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        try:
            return part(seed, Path(folder))
        except Exception as error:  # an assertion that fails, or a crash of the code under test
            at = traceback.extract_tb(error.__traceback__)[-1]
            text = (str(error).splitlines() or [at.line or ""])[0]
            return Outcome(violation=f"{type(error).__name__}: {text} ({Path(at.filename).name}:{at.lineno})")


def all_parts() -> dict[str, Part]:
    """Every part; what they need is imported when it is wanted."""
    from simulation import aggregator_world, cache_world, history_world, ingest_world, intake_world, plan_world
    from simulation import run as session_world
    from simulation.run import Report
    from tests.support.join_histories import JoinHistory
    from tests.support.log_kills import Appender, kill_again_and_again
    from tests.support.restored_deployment import Deployment
    from tests.support.spark_hardship import hardship
    from tests.support.spark_workers import Workers
    from tests.support.spark_workers import run as spark_history

    def world(run: Callable[[int], Report]) -> Part:
        def part(seed: int, folder: Path) -> Outcome:
            report = run(seed)
            return Outcome(report.checks, 0, report.violation)

        return part

    def history(seed: int, folder: Path) -> Outcome:
        batches = 20
        made = JoinHistory(seed) if seed % 2 else None
        spark_history(seed, folder, Workers(seed, deaths=0.2), batches=batches, restarts=0.2, history=made)
        return Outcome(batches)

    def bounds(seed: int, folder: Path) -> Outcome:
        batches = 60
        hardship(seed, folder, batches)
        return Outcome(batches)

    def restores(seed: int, folder: Path) -> Outcome:
        deployment = Deployment(folder, seed)
        asyncio.run(deployment.run(5))
        return Outcome(deployment.checks, deployment.restores)

    def log_kills(seed: int, folder: Path) -> Outcome:
        appender = Appender()
        try:
            kill_again_and_again(appender, folder / "log", KILLS, threads=1 + seed % 6, seed=seed)
        finally:
            appender.close()
        return Outcome(KILLS, KILLS)

    return {
        "sessions": world(session_world.run),
        "histories": world(history_world.run),
        "caches": world(cache_world.run),
        "plans": world(plan_world.run),
        "aggregators": world(aggregator_world.run),
        "intakes": world(intake_world.run),
        "ingest streams": world(ingest_world.run),
        "Spark histories": history,
        "Spark bounds": bounds,
        "restores": restores,
        "log kills": log_kills,
    }


def main(arguments: Sequence[str]) -> int:
    """Run the parts, print what was covered."""
    parser = argparse.ArgumentParser(description="fresh seeds and kills, for so many seconds")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; from the clock where there is none")
    parser.add_argument("--part", action="append", help="only this part; may be repeated")
    given = parser.parse_args(arguments)
    first = int(time.time()) if given.seed is None else given.seed
    parts = all_parts()
    unknown = set(given.part or ()) - set(parts)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are: {', '.join(parts)}")
    result = soak({name: part for name, part in parts.items() if name in (given.part or parts)}, given.seconds, first)
    print(result.text())
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
