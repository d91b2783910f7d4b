"""The limit of descriptors is raised, and a reserve is kept of it."""

import resource
import subprocess
import sys
from pathlib import Path

from slackwater.server.descriptors import LEAST_CONNECTIONS, descriptors_open, raise_limit, room_for_connections


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200));"
        "from slackwater.server.descriptors import raise_limit;"
        "print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["200", "200", "200"]


def test_a_limit_that_is_raised_already_stays() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert raise_limit() == raise_limit() > 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_is_open_is_counted() -> None:
    before = descriptors_open()
    with Path(sys.executable).open("rb"), Path(sys.executable).open("rb"):
        assert descriptors_open() == before + 2
    assert descriptors_open() == before


def test_connections_never_take_the_reserve() -> None:
    for limit in (16, 128, 256, 1_024, 20_000, 1 << 20):
        room = room_for_connections(limit, used=40)
        assert room == LEAST_CONNECTIONS or room + 40 + max(64, limit // 10) <= limit
