"""How long importing the base install takes, in fresh processes: the median and the range of 15 runs each.

`python -c pass` is the control: what starting Python costs by itself.
"""

import statistics
import subprocess
import sys
import time

from benchmarks import report

STATEMENTS = {
    "control": "pass",
    "slackwater": "import slackwater",
    "slackwater.sql": "import slackwater, slackwater.core, slackwater.sql",
    "slackwater.cli": "import slackwater.cli",
}
RUNS = 15


def seconds(statement: str) -> float:
    """Time one fresh process."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - started


def main() -> None:
    """Measure, interleaved so that a busy moment of the machine hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(RUNS):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    figures = {
        name: {
            "median_s": round(statistics.median(taken), 3),
            "fastest_s": round(min(taken), 3),
            "slowest_s": round(max(taken), 3),
        }
        for name, taken in times.items()
    }
    report.write("import_time", {"runs": RUNS, "process": figures})


if __name__ == "__main__":
    main()
