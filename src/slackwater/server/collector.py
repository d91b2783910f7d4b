"""Garbage collector of a process that holds many queries: kept away from what stays.

A full collection looks at every object, half a second for 10 000 queries, and comes back whenever a quarter more has
been made. While a node opens nearly all that is made stays, so the collector is off; what is there at the end is
frozen: collections pass over it from then on.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold the collector off, and at the end have it pass over all that is there."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if enabled:
            gc.enable()
