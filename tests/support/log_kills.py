"""A writer of a log that is killed with `kill -9` at random moments, and the check of what it leaves."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from slackwater.core import Position
from slackwater.log import LocalLog, Updates, verify

APPENDER = Path(__file__).with_name("appender.py")
MOST_PARTS = 3
SEGMENT_BYTES = 60_000


def parts(thread: int, number: int) -> list[int]:
    """The sizes of the records of an append, as the appender chooses them."""
    chosen = random.Random(f"{thread}/{number}")
    return [chosen.choice((1, 5, 60, 400)) for _ in range(chosen.randint(1, MOST_PARTS))]


class Appender:
    """The program that gets killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(APPENDER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands: IO[str] = self._process.stdin
        self._output: IO[str] = self._process.stdout

    def run_and_kill(self, folder: Path, firsts: list[int], appends: int, moment: float) -> list[tuple[int, int, int]]:
        """Append from these numbers on, one thread for each; return what was acknowledged before the kill.

        The kill comes a moment after so many appends, which makes the test as thorough on a busy machine as on an
        idle one. After no append it may hit the opening of the log.
        """
        self._commands.write(f"{folder} {' '.join(map(str, firsts))}\n")
        self._commands.flush()
        acknowledged: list[tuple[int, int, int]] = []
        pid = 0
        for line in self._output:
            word, *numbers = line.split()
            if word == "pid":
                pid = int(numbers[0])
            elif word == "ack":
                thread, number, end = map(int, numbers)
                acknowledged.append((thread, number, end))
            else:
                break
            if len(acknowledged) == appends:
                time.sleep(moment)
                assert pid > 0, "the appender says who it is before anything else"
                os.kill(pid, signal.SIGKILL)
        return acknowledged

    def close(self) -> None:
        self._commands.close()
        self._process.wait(timeout=30)
        self._output.close()


def appends_in(log: LocalLog, start: Position) -> list[tuple[int, int, int, list[int]]]:
    """The appends found from a position on: thread, number, end, and the sizes of their records."""
    found: list[tuple[int, int, int, list[int]]] = []
    for entry in log.read(start):
        assert isinstance(entry.record, Updates)
        batch = entry.record.batch
        (source,) = set(batch.column("$source").to_pylist())
        (sequence,) = set(batch.column("$seq").to_pylist())
        assert batch.column("k").to_pylist() == list(range(batch.num_rows))
        number, part = divmod(sequence, MOST_PARTS)
        assert set(batch.column("text").to_pylist()) == {f"{number}/{part}"}
        if part == 0:
            found.append((int(source), number, entry.end, [batch.num_rows]))
        else:
            thread, present, _, sizes = found[-1]
            assert (thread, present, len(sizes)) == (int(source), number, part)
            found[-1] = (thread, number, entry.end, [*sizes, batch.num_rows])
    return found


def kill_again_and_again(appender: Appender, folder: Path, kills: int, threads: int, seed: int) -> None:
    """Every acknowledged append is there, once, whole, in order; and at most one more of each thread."""
    chosen = random.Random(seed)
    following = [0] * threads
    checked = Position(0)
    for _ in range(kills):
        appends = chosen.choice((0, 0, 1, 5, 20, 40))
        acknowledged = appender.run_and_kill(folder, following, appends, chosen.random() * 0.01)
        assert len(acknowledged) >= appends
        with LocalLog(folder, segment_bytes=SEGMENT_BYTES) as log:
            found = appends_in(log, checked)
            for thread, first in enumerate(following):
                own = [append for append in found if append[0] == thread]
                # In order, without a gap, each once.
                assert [number for _, number, _, _ in own] == list(range(first, first + len(own)))
                promised = [(number, end) for by, number, end in acknowledged if by == thread]
                assert [(number, end) for _, number, end, _ in own[: len(promised)]] == promised
                assert len(own) <= len(promised) + 1, "more than the one append in flight was kept"
                for _, number, _, sizes in own[: len(promised)]:
                    assert sizes == parts(thread, number)
                for _, number, _, sizes in own[len(promised) :]:
                    assert sizes == parts(thread, number)[: len(sizes)]
                following[thread] = first + len(own)
            checked = log.end
            if chosen.random() < 0.3:
                log.drop_before(Position(int(log.start + (log.end - log.start) * chosen.random())))
    report = verify(folder)
    assert report.sound, report.damage
    assert report.end == checked
    assert int(max(folder.glob("*.segment")).name[:20]) > 0, "segments must have been rolled"
