"""Death signal of a parent: on Linux the system kills a child at once when its parent ends, however that ends.

The signal goes with the thread that forked; that is the parent's main thread, which lasts as long as the parent does.
"""

import ctypes
import signal
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
# Loaded before any fork: a copy of this process cannot wait for the loader's lock.
_system: Any = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """Ask the system to kill this process when its parent ends; elsewhere than on Linux nothing happens."""
    if _system is not None:
        _system.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
