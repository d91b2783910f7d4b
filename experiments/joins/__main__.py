"""Command line: `python -m experiments.joins data-folder to-folder` runs the three experiments and draws them."""

import sys
import time
from pathlib import Path

from experiments.joins.experiments import against_groups, against_queries, routes
from experiments.joins.pictures import draw
from experiments.output import write_records


def main() -> None:
    """Write three tables and three pictures."""
    if len(sys.argv) != 3:
        sys.exit("say where the traces are and where to write: two folders")
    folder, to = Path(sys.argv[1]), Path(sys.argv[2])
    to.mkdir(parents=True, exist_ok=True)
    clock = time.process_time
    by_queries = list(against_queries(clock, (100, 1_000, 10_000, 100_000)))
    by_groups = list(against_groups(clock, (1, 10, 100, 1_000, 10_000), 100_000))
    by_routes = list(routes(clock, folder, queries=100_000, rows=500_000))
    for name, rows in (("queries", by_queries), ("groups", by_groups), ("routes", by_routes)):
        write_records(to / f"{name}.csv", rows)
    draw(by_queries, by_groups, by_routes, to)


if __name__ == "__main__":
    main()
