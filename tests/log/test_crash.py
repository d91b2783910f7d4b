"""`kill -9` at random moments: every acknowledged append is there, once, whole, in order, and next to nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.log_kills import Appender, kill_again_and_again


@pytest.fixture(scope="module")
def appender() -> Iterator[Appender]:
    one = Appender()
    yield one
    one.close()


def test_a_killed_writer_loses_nothing_it_acknowledged(appender: Appender, tmp_path: Path) -> None:
    kill_again_and_again(appender, tmp_path / "log", kills=15, threads=1, seed=1)


def test_killed_threads_lose_nothing_they_acknowledged(appender: Appender, tmp_path: Path) -> None:
    kill_again_and_again(appender, tmp_path / "log", kills=8, threads=4, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 6])
def test_two_hundred_kills(appender: Appender, tmp_path: Path, threads: int) -> None:
    kill_again_and_again(appender, tmp_path / "log", kills=200, threads=threads, seed=3)
