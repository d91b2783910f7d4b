"""Ternary grid: quantised changes whose spacing is a power of three, and the transitions between these states.

Mathematics
    At level L the spacing is 3^L and the state of a change c is the nearest whole number to c/3^L. Going to level L+1
    maps state n to the nearest whole number to n/3, which is never a tie: the states 3k−1, 3k, 3k+1 become k, and the
    middle of the new state is the middle of the old one. So counts taken at a fine level can be turned into counts at
    any coarser one, and the result is the same whichever level the counting began at. (Halving would not do: state 1
    of a grid centred on zero straddles two states of the grid twice as coarse.)

    c/3^L is not exact in floating point, and a change that sits on the edge of two states must fall on the same side
    from whichever level it is reached. Therefore a change is rounded once, at a level that depends on its own
    exponent only and leaves it about 51 bits, and brought to level L in whole numbers.

    A level for changes up to `largest` is the smallest at which the state is at most `WIDEST`: it never falls when
    more changes are seen.

`emit_transitions` is compiled, `transitions_plainly` is its twin over Python values.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LOWEST, HIGHEST = -640, 640
"""Levels beyond these leave the range of a double."""
WIDEST = 1093
"""(3^7 − 1)/2: the largest state on the finest level an item starts at."""
SPACINGS: Floats = np.array([3.0**level for level in range(LOWEST, HIGHEST + 1)])
_REACH: Floats = WIDEST * SPACINGS[:-10]
_POWERS: Integers = np.array([3**k for k in range(40)], np.int64)
_KEPT_BITS = 51
SURE = 0.4999
_BITS_A_LEVEL = math.log2(3.0)
HALF = 1 << 19
"""A transition x → y is one number, (x + HALF)·2·HALF + (y + HALF); states lie within ±(HALF − 1)."""


def level_for(largest: Floats) -> Integers:
    """The finest level for changes up to `largest`; the lowest there is for an item that never moved.

    >>> level_for(np.array([0.0, 1093.0, 1094.0])).tolist()
    [-640, 0, 1]
    """
    return np.searchsorted(_REACH, largest, side="left").astype(np.int64) + LOWEST


@compiled
def coarser(state: int, steps: int) -> int:
    """The state that many levels up."""
    if steps <= 0:
        return state
    if steps >= 40:
        return 0
    power = _POWERS[steps]
    return int((state + (power - 1) // 2) // power)


@compiled
def state_at(change: float, level: int) -> int:
    """The state of a change at a level, which must not be below `level_for` of it."""
    if change == 0.0:
        return 0
    # Away from the edge between two states there is no doubt; near it, the careful way decides.
    scaled = change / SPACINGS[level - LOWEST]
    nearest: int = round(scaled)
    if abs(scaled - nearest) < SURE and abs(nearest) < HALF:
        return nearest
    own = math.ceil((math.frexp(change)[1] - _KEPT_BITS) / _BITS_A_LEVEL)
    own = min(max(own, LOWEST), level)
    return coarser(round(change / SPACINGS[own - LOWEST]), level - own)


@compiled
def state_of(change: float, level: int, spacing: float, widest: int) -> int:
    """The state of a change: at the level, or where a spacing is fixed (not 0) by that, clamped to ±widest."""
    if spacing > 0.0:
        scaled = min(max(change / spacing, -float(widest)), float(widest))
        return round(scaled)
    return state_at(change, level)


@compiled
def states_of(changes: Floats, levels: Integers, spacings: Floats, widest: int, states: Integers) -> None:
    """Write the state of each change to `states`."""
    for i in range(len(changes)):
        states[i] = state_of(changes[i], levels[i], spacings[i], widest)


@compiled
def ticks_in(step: int, tick: int) -> int:
    """How many ticks a step in time is: 1 where no tick is given, else the nearest whole number, at least 1."""
    if tick == 0:
        return 1
    return max(1, (2 * step + tick) // (2 * tick))


@compiled
def largest_change(
    starts: Integers, times: Integers, values: Floats, longest_gap: int, tick: int, largest: Floats
) -> None:
    """Write the largest change per tick of item g, gaps left out, to `largest[g]`."""
    for g in range(len(starts) - 1):
        most = 0.0
        for i in range(starts[g] + 1, starts[g + 1]):
            step = times[i] - times[i - 1]
            if step <= longest_gap:
                most = max(most, abs((values[i] - values[i - 1]) / ticks_in(step, tick)))
        largest[g] = most


@compiled
def emit_transitions(
    starts: Integers,
    times: Integers,
    values: Floats,
    longest_gap: int,
    half_life: float,
    tick: int,
    levels: Integers,
    spacings: Floats,
    widest: int,
    groups: Integers,
    keys: Integers,
    weights: Floats,
) -> int:
    """Write every transition (its item, x → y as one number, its weight) and return how many there are.

    A change over m ticks arrives in its state once and stays there m − 1 times. A gap breaks the chain.
    """
    count = 0
    for g in range(len(starts) - 1):
        end = starts[g + 1]
        known = False
        before = 0
        for i in range(starts[g] + 1, end):
            step = times[i] - times[i - 1]
            if step > longest_gap:
                known = False
                continue
            length = ticks_in(step, tick)
            after = state_of((values[i] - values[i - 1]) / length, levels[g], spacings[g], widest)
            w = 1.0
            if half_life > 0.0:
                w = 2.0 ** (-(times[end - 1] - times[i]) / half_life)
            if known:
                groups[count] = g
                keys[count] = (before + HALF) * 2 * HALF + after + HALF
                weights[count] = w
                count += 1
            if length > 1:
                groups[count] = g
                keys[count] = (after + HALF) * 2 * HALF + after + HALF
                weights[count] = w * (length - 1)
                count += 1
            before = after
            known = True
    return count


def transitions_plainly(
    times: Sequence[int], values: Sequence[float], longest_gap: int, half_life: float, tick: int, level: int
) -> dict[tuple[int, int], float]:
    """The weight of every transition of one item at a level of the grid.

    >>> transitions_plainly([0, 1, 2, 3], [0.0, 3.0, 6.0, 6.0], 9, 0.0, 0, 1)
    {(1, 1): 1.0, (1, 0): 1.0}
    """
    counts: dict[tuple[int, int], float] = {}
    before: int | None = None
    for i in range(1, len(times)):
        step = times[i] - times[i - 1]
        if step > longest_gap:
            before = None
            continue
        length = max(1, (2 * step + tick) // (2 * tick)) if tick else 1
        after = state_plainly((values[i] - values[i - 1]) / length, level)
        weight = 2.0 ** (-(times[-1] - times[i]) / half_life) if half_life else 1.0
        if before is not None:
            counts[before, after] = counts.get((before, after), 0.0) + weight
        if length > 1:
            counts[after, after] = counts.get((after, after), 0.0) + weight * (length - 1)
        before = after
    return counts


def state_plainly(change: float, level: int) -> int:
    """The state of a change: rounded at the level of its own exponent, then a third at a time.

    >>> state_plainly(0.4, 0), state_plainly(1.6, 0), state_plainly(-100.0, 3)
    (0, 2, -4)
    """
    if change == 0.0:
        return 0
    own = max(LOWEST, math.ceil((math.frexp(change)[1] - 51) / math.log2(3.0)))
    state = round(change / 3.0**own)
    for _ in range(level - own):
        state = (state + 1) // 3
    return state
