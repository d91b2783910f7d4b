"""A driver to be killed: takes a log into a folder, saying each position it has committed.

python driver.py LOG OUT MASTER MAX_ROWS SETTLE_BATCHES
"""

import sys

from slackwater.pipeline.session import build_session
from slackwater.pipeline.stream import run_pipeline


def main() -> None:
    log, out, master, max_rows, settle_batches = sys.argv[1:]
    session = build_session(master)
    print("session", flush=True)
    with run_pipeline(
        log,
        out,
        session,
        available_now=True,
        max_rows=int(max_rows),
        settle_batches=int(settle_batches),
        progress=lambda step: print(step.position, flush=True),
    ) as run:
        run.wait()
    session.stop()
    print("done", flush=True)


if __name__ == "__main__":
    main()
