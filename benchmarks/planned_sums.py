"""Planned sums in simulated worlds: how many values were compared with the truth, and for how long nothing was certain.

A world has 4 aggregators and 3 sums. In 8 seconds three aggregators, a node and the planner are killed, the network
loses and delays what it carries, and plans change; then it heals, and one aggregator dies for good
(`simulation.plan_world`). A promise that is not kept ends the run. Time counts from when a sum was first certain.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from benchmarks import report
from simulation.plan_world import run

SEEDS = (*range(220), *range(5_000, 5_080))
"""300 worlds; they were run in two processes."""


def measure(seeds: Iterable[int]) -> Counter[str]:
    """What happened in some worlds."""
    total: Counter[str] = Counter()
    for seed in seeds:
        found = run(seed)
        if found.violation is not None:
            raise AssertionError(f"seed {seed}: {found.violation}")
        total.update(found.happened)
        total.update({"worlds": 1, "values compared": found.checks})
    return total


def figures(total: Counter[str]) -> dict[str, Any]:
    """The figures of all worlds together."""
    return {
        "worlds": total["worlds"],
        "violations": 0,
        "values_compared": total["values compared"],
        "plans_taken_up": total["first plan taken up"] + total["plan taken up"],
        "aggregators_and_nodes_killed": total["aggregator or node killed"],
        "planners_killed": total["planner killed"],
        "share_not_certain": round(total["looks at what is not certain"] / total["looks"], 3),
        "share_in_which_a_plan_was_on_its_way": round(total["looks while plans change"] / total["looks"], 3),
    }


def main() -> None:
    report.write("planned_sums", figures(measure(SEEDS)))


if __name__ == "__main__":
    main()
