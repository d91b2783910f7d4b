"""A real driver, killed in the middle: what is kept in the end equals an uninterrupted run's."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from slackwater.log import LocalLog
from slackwater.pipeline.tables.manifest import read_state
from slackwater.pipeline.tables.snapshot import snapshot
from slackwater.pipeline.tables.stream import run_pipeline

if TYPE_CHECKING:
    from tests.pipeline.conftest import World

DRIVER = Path(__file__).parents[2] / "support" / "spark_driver.py"
MARK = "SLACKWATER_TEST_RUN"


def ours(mark: str) -> list[int]:
    """The processes of a driver that are still there: its Java, its Python workers."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


@contextmanager
def driver(
    log: Path, out: Path, master: str = "local[2]", *files: str
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A driver in a process of its own; none of its processes outlives the with statement."""
    mark = uuid.uuid4().hex
    command = [sys.executable, str(DRIVER), str(log), str(out), master, "50", "6", *files]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, MARK: mark},
        start_new_session=True,
    )
    try:
        yield process, mark
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        for pid in ours(mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def said(process: "subprocess.Popen[str]", lines: int) -> None:
    """Wait until the driver has said so much, or ended."""
    assert process.stdout is not None
    for _ in range(lines):
        if not process.stdout.readline():
            return


def finish(world: "World", spark: SparkSession, log: Path, out: Path, seed: int) -> None:
    """Go on to the end where the killed driver was, and compare with a run that nothing disturbed."""
    with run_pipeline(log, out, spark, available_now=True, max_rows=400, settle_batches=2) as run:
        run.wait()
    history = world.history(seed, batches=120)
    world.check(snapshot(out), history)
    with run_pipeline(log, out.with_name("undisturbed"), spark, available_now=True) as run:
        run.wait()
    undisturbed = snapshot(out.with_name("undisturbed"))
    for table in (world.quotes, world.rooms):
        assert world.latest_rows(snapshot(out), table) == world.latest_rows(undisturbed, table)
        assert world.history_rows(snapshot(out), table) == world.history_rows(undisturbed, table)
    assert snapshot(out).quarantine().count_rows() == undisturbed.quarantine().count_rows()


def test_killed_once_in_the_middle(world: "World", spark: SparkSession, tmp_path: Path) -> None:
    log, out = world.history(31, batches=120).write(tmp_path / "log"), tmp_path / "out"
    random = Random(time.time_ns())
    with driver(log, out) as (process, _):
        # The session, then some batches, then somewhere in the next.
        said(process, 2 + random.randint(2, 12))
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        process.wait()
        # Its Java and its workers may still be at work when the next one begins.
        state = read_state(out)
        with LocalLog(log, read_only=True) as opened:
            assert state is not None
            assert 0 < state.position < opened.end
        finish(world, spark, log, out, 31)


@pytest.mark.slow
def test_killed_ten_times(world: "World", spark: SparkSession, tmp_path: Path) -> None:
    log, out = world.history(32, batches=120).write(tmp_path / "log"), tmp_path / "out"
    random = Random(time.time_ns())
    for _ in range(10):
        with driver(log, out) as (process, mark):
            said(process, 1 + random.randint(0, 4))
            time.sleep(random.uniform(0, 0.5))
            if random.random() < 0.5:
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
            if random.random() < 0.5:
                while ours(mark):
                    time.sleep(0.05)
    finish(world, spark, log, out, 32)


@pytest.mark.slow
def test_two_executors_and_one_of_them_killed(world: "World", spark: SparkSession, tmp_path: Path) -> None:
    log, out = world.history(33, batches=120).write(tmp_path / "log"), tmp_path / "out"
    file = tmp_path / "loaded.csv"
    file.write_text("id,v\n" + "".join(f"k{n},{n}\n" for n in range(1000)) + "k,x\n")
    with driver(log, out, "local-cluster[2,1,1024]", str(file)) as (process, mark):
        said(process, 8)
        executors = [pid for pid in ours(mark) if b"CoarseGrainedExecutorBackend" in command_line(pid)]
        assert len(executors) == 2, "two real processes"
        os.kill(executors[0], signal.SIGKILL)
        rest, _ = process.communicate(timeout=240)
        *_, loaded, package, done = rest.splitlines()
        assert done == "done", "the driver went on to the end by itself"
        assert loaded == "loaded 1001 0"
        assert "slackwater.zip" in package, "the package ships itself"
    assert snapshot(out.with_name("out-loaded")).latest("loaded").num_rows == 1001
    finish(world, spark, log, out, 33)


def command_line(pid: int) -> bytes:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""
