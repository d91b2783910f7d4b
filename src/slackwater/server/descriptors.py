"""File descriptors: the soft limit raised to the hard one, and a reserve that connections do not get.

A process without a free descriptor cannot open a segment of its log, a snapshot or a thread's pipe. So connections are
bounded by what is left after what is open at the start and a reserve for the disk, DuckDB and connections outwards.
"""

import resource
from pathlib import Path

LEAST_RESERVE = 64
LEAST_CONNECTIONS = 8
"""However few descriptors there are; a server with fewer could not be asked what is wrong."""
_MOST = 1 << 20
"""Taken for a limit of infinity."""
_OPEN = Path("/proc/self/fd")
_USUALLY_OPEN = 32
"""Where the system does not tell."""


def raise_limit() -> int:
    """Raise the soft limit of this process to the hard one, as far as the system lets it; returns the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(_MOST, soft)
    if soft == resource.RLIM_INFINITY or soft >= hard:
        return _MOST if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    except (ValueError, OSError):
        return soft
    return hard


def descriptors_open() -> int:
    """Number of descriptors that this process has open."""
    try:
        return sum(1 for _ in _OPEN.iterdir())
    except OSError:
        return _USUALLY_OPEN


def room_for_connections(limit: int, used: int) -> int:
    """How many connections fit under a limit of descriptors, beside those in use and the reserve.

    >>> room_for_connections(20_000, used=40), room_for_connections(256, used=40), room_for_connections(64, used=40)
    (17960, 152, 8)
    """
    return max(LEAST_CONNECTIONS, limit - used - max(LEAST_RESERVE, limit // 10))
