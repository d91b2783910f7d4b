"""Command line: `python -m experiments.push_pull data-folder to-folder` runs the three experiments and draws them."""

import csv
import json
import sys
from pathlib import Path

from experiments.push_pull.pictures import draw
from experiments.push_pull.tables import Row, cost_table, drift_table, gap_table, settled


def main() -> None:
    """Write three tables, three pictures and what drift settles at."""
    if len(sys.argv) != 3:
        sys.exit("say where the traces are and where to write: two folders")
    folder, to = Path(sys.argv[1]), Path(sys.argv[2])
    to.mkdir(parents=True, exist_ok=True)
    costs, gaps, drift = list(cost_table(folder)), list(gap_table(folder)), list(drift_table())
    for name, rows in (("costs", costs), ("gaps", gaps), ("drift", drift)):
        _write(to / f"{name}.csv", rows)
    (to / "settled.json").write_text(json.dumps(settled(drift), indent=2) + "\n")
    draw(costs, gaps, drift, to)


def _write(to: Path, rows: list[Row]) -> None:
    with to.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
