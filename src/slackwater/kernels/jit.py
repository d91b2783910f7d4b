"""JIT wrapper: typed access to numba's decorators; the only module that imports them."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over NumPy arrays to machine code, kept on disk between runs; types stay as written."""
    fast: Callable[P, R] = numba.njit(cache=True, nogil=True)(function)
    return fast


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """The same, copied into its callers: for steps of hot loops that take many arrays, where a call costs more."""
    fast: Callable[P, R] = numba.njit(cache=True, nogil=True, inline="always")(function)
    return fast
