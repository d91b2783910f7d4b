"""`slackwater replay` killed with SIGKILL again and again: in the end every row is in the log once."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slackwater.log import LocalLog, Quarantined, Updates

ROWS = 200_000
BAD_EVERY = 1_000


def write_csv(path: Path) -> None:
    with path.open("w") as file:
        file.write("item,value,at\n")
        for n in range(ROWS):
            value = "bad" if n % BAD_EVERY == 0 else n / 8
            file.write(f"i{n % 97},{value},2026-01-01T00:{n // 60 % 60:02d}:{n % 60:02d}Z\n")


def start(file: Path, log: Path) -> "subprocess.Popen[bytes]":
    options = ["--log", str(log), "--key", "item", "--time", "at", "--type", "value=DOUBLE", "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "slackwater", "replay", str(file), *options], stdout=subprocess.DEVNULL
    )


def size(log: Path) -> int:
    return sum(file.stat().st_size for file in log.glob("*.segment")) if log.is_dir() else 0


def kill_while_it_writes(file: Path, log: Path, chance: random.Random) -> bool:
    """Kill a replay some moments after it began to write; False if it was done before."""
    before, process = size(log), start(file, log)
    try:
        while process.poll() is None and size(log) <= before:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        return process.wait(60) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait(60)


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_killed_replays_lose_nothing_and_repeat_nothing(tmp_path: Path, kills: int) -> None:
    file, log = tmp_path / "rows.csv", tmp_path / "log"
    write_csv(file)
    chance = random.Random(kills)
    killed = sum(kill_while_it_writes(file, log, chance) for _ in range(kills))
    assert killed, "no replay was killed in the middle: the test shows nothing"
    with start(file, log) as last:
        assert last.wait(120) == 0
    accepted: list[int] = []
    refused: list[int] = []
    with LocalLog(log, read_only=True) as reader:
        for entry in reader.read(reader.start):
            if isinstance(entry.record, Updates):
                accepted += entry.record.batch.column("$seq").to_pylist()
            elif isinstance(entry.record, Quarantined):
                refused += entry.record.batch.column("$seq").to_pylist()
    assert sorted(accepted + refused) == list(range(1, ROWS + 1))
    assert refused == [n + 1 for n in range(0, ROWS, BAD_EVERY)]
