"""Command line: `python -m experiments.push_pull data-folder to-folder` runs the three experiments and draws them."""

import json
import sys
from pathlib import Path

from experiments.output import write_records
from experiments.push_pull.pictures import draw
from experiments.push_pull.tables import cost_table, drift_table, gap_table, settled


def main() -> None:
    """Write three tables, three pictures and what drift settles at."""
    if len(sys.argv) != 3:
        sys.exit("say where the traces are and where to write: two folders")
    folder, to = Path(sys.argv[1]), Path(sys.argv[2])
    to.mkdir(parents=True, exist_ok=True)
    costs, gaps, drift = list(cost_table(folder)), list(gap_table(folder)), list(drift_table())
    for name, rows in (("costs", costs), ("gaps", gaps), ("drift", drift)):
        write_records(to / f"{name}.csv", rows)
    (to / "settled.json").write_text(json.dumps(settled(drift), indent=2) + "\n")
    draw(costs, gaps, drift, to)


if __name__ == "__main__":
    main()
