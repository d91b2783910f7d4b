"""JIT wrapper: typed access to numba's decorators; the only module that imports them.

Machine code is kept on disk between runs. numba makes it anew when the file of the function has changed; but it has in
it what the function calls and the constants it uses, which mostly stand in other files. So the code of each function is
that of all kernels as they are now.
"""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.core import cgutils
from numba.cpython.unsafe.numbers import trailing_zeros as _trailing_zeros
from numba.extending import intrinsic, is_jitted
from numba.np.numpy_support import carray

P = ParamSpec("P")
R = TypeVar("R")


_KERNELS = sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()


def _of_these_kernels(fast: Any) -> Any:
    """Have code on disk used only if all kernels are those it was made with."""
    has_code: bool = is_jitted(fast)
    if has_code:
        file = fast._cache._cache_file
        file._source_stamp = file._source_stamp, _KERNELS
    return fast


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop over NumPy arrays to machine code, kept on disk between runs; types stay as written."""
    fast: Callable[P, R] = _of_these_kernels(numba.njit(cache=True, nogil=True)(function))
    return fast


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """The same, copied into its callers: for steps of hot loops that take many arrays, where a call costs more."""
    fast: Callable[P, R] = _of_these_kernels(numba.njit(cache=True, nogil=True, inline="always")(function))
    return fast


@inlined
def trailing_zeros(word: np.uint64) -> np.int64:
    """How many of the lowest bits of a word are 0: one instruction; for compiled callers only."""
    return np.int64(_trailing_zeros(word))  # type: ignore[call-arg]  # an intrinsic is called without its context


def _address(_: Any, address: Any) -> Any:
    """A number as a pointer, as numba's intrinsics are written: the types, and the code for them."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return numba.types.voidptr(address), code


_pointer: Any = intrinsic(_address)


@compiled
def words_at(address: int, count: int) -> npt.NDArray[np.int64]:
    """Memory at an address as an array, within compiled loops; the caller keeps the memory alive."""
    words: npt.NDArray[np.int64] = carray(_pointer(address), (count,), np.int64)
    return words


@compiled
def numbers_at(address: int, count: int) -> npt.NDArray[np.float64]:
    """The same as numbers."""
    numbers: npt.NDArray[np.float64] = carray(_pointer(address), (count,), np.float64)
    return numbers


@compiled
def offsets_at(address: int, count: int) -> npt.NDArray[np.int32]:
    """The same as offsets of texts."""
    offsets: npt.NDArray[np.int32] = carray(_pointer(address), (count,), np.int32)
    return offsets


@compiled
def bytes_at(address: int, count: int) -> npt.NDArray[np.uint8]:
    """The same as bytes."""
    found: npt.NDArray[np.uint8] = carray(_pointer(address), (count,), np.uint8)
    return found
