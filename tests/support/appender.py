"""Child process that appends to a log until it is killed, for `test_crash`.

Reads lines `folder first…` from its input, a number for each thread. For each line it forks a process that appends
for ever; that one prints `pid …` first and `ack thread number end` after each append, this one `ended` at last.
Forking saves the hundreds of milliseconds that importing takes, so that hundreds of kills are affordable.
"""

import os
import random
import sys
import threading

from slackwater.core import Column, DataType, Instant, Origin, TableSchema, Update
from slackwater.core.arrow import to_batch
from slackwater.log import LocalLog, Record, Updates

TABLE = TableSchema("t", (Column("k", DataType.BIGINT, nullable=False), Column("text", DataType.TEXT)), key=("k",))
SEGMENT_BYTES = 60_000
MOST_PARTS = 3


def parts(thread: int, number: int) -> list[int]:
    """How many rows the records of an append have: the test knows it too."""
    chosen = random.Random(f"{thread}/{number}")
    return [chosen.choice((1, 5, 60, 400)) for _ in range(chosen.randint(1, MOST_PARTS))]


def records(thread: int, number: int) -> list[Record]:
    """An append whose rows say which they are."""
    return [
        Updates(
            "t",
            to_batch(
                TABLE,
                [
                    Update("t", (row, f"{number}/{part}"), Instant(0), Origin(str(thread), number * MOST_PARTS + part))
                    for row in range(rows)
                ],
            ),
        )
        for part, rows in enumerate(parts(thread, number))
    ]


def append_for_ever(log: LocalLog, thread: int, number: int) -> None:
    while True:
        end = log.append(records(thread, number))
        os.write(1, f"ack {thread} {number} {end}\n".encode())
        number += 1


def main() -> None:
    for line in sys.stdin:
        folder, *firsts = line.split()
        pid = os.fork()
        if pid == 0:
            os.write(1, f"pid {os.getpid()}\n".encode())
            log = LocalLog(folder, segment_bytes=SEGMENT_BYTES)
            for thread, first in enumerate(firsts[1:], start=1):
                threading.Thread(target=append_for_ever, args=(log, thread, int(first)), daemon=True).start()
            append_for_ever(log, 0, int(firsts[0]))
        os.waitpid(pid, 0)
        os.write(1, b"ended\n")


if __name__ == "__main__":
    main()
