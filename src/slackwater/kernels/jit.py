"""JIT wrapper: typed access to numba's decorators; the only module that imports them."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba
import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros as _trailing_zeros

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


@inlined
def trailing_zeros(word: np.uint64) -> np.int64:
    """How many of the lowest bits of a word are 0: one instruction; for compiled callers only."""
    return np.int64(_trailing_zeros(word))  # type: ignore[call-arg]  # an intrinsic is called without its context
