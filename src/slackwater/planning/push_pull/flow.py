"""Maximum flow with 62-bit capacities, by rounds of a 31-bit solver, coarse first (capacity scaling).

Mathematics
    With every capacity rounded down to a multiple of 2^s the flow that is found is feasible, and what is missing to
    the maximum is below 2^s for each edge of a smallest cut of what is left: at most 2^s times the edges of the
    residual graph. So the next round works on the residual graph, with capacities no larger than that bound and a
    finer s; the last has s = 0. A workload of M1 fits in one round.

    Costs that are whole numbers stay what they are. Others are counted in a power of two at most 2⁻⁵⁸ of their sum,
    which is finer than the double in which they came.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from slackwater.planning.push_pull.base import Flags, Floats, Integers

SOURCE, SINK = 0, 1
ENDLESS = -1
"""The capacity of an edge that is never cut."""

_BITS = 30


@dataclass(frozen=True, slots=True, eq=False)
class MinimumCut:
    """The value of a maximum flow, and the nodes that the source still reaches: one side of a smallest cut."""

    value: int
    reached: Flags


def unit_of(costs: Floats) -> float:
    """The unit in which to count these costs.

    >>> unit_of(np.array([3.0, 4.0]))
    1.0
    """
    total = float(costs.sum())
    if total < 2.0**58 and (costs == np.floor(costs)).all():
        return 1.0
    return math.ldexp(1.0, math.frexp(total)[1] - 58)


def smallest_cut(nodes: int, heavy_tails: Integers, heads: Integers, capacities: Integers) -> MinimumCut:
    """Cut the source from the sink; no edge may come twice, nor together with its reverse."""
    endless = capacities == ENDLESS
    leaving, entering = heavy_tails == SOURCE, heads == SINK
    bound = min(int(capacities[leaving].sum()), int(capacities[entering].sum()))
    limit = np.where(endless, bound, capacities)
    flow = np.zeros(len(heavy_tails), np.int64)
    while bound:
        shift = max(0, bound.bit_length() - _BITS)
        # An endless edge has room for all that is still to come, however much it carries.
        ahead = np.minimum(np.where(endless, bound, limit - flow), bound) >> shift
        back = np.minimum(flow, bound) >> shift
        graph = _graph(nodes, heavy_tails, heads, ahead, back)
        found = maximum_flow(graph, SOURCE, SINK).flow
        flow += np.asarray(found[heavy_tails, heads]).astype(np.int64) << shift
        if shift == 0:
            break
        bound = min(bound, (2 * len(heavy_tails)) << shift)
    left = _graph(nodes, heavy_tails, heads, np.where(endless | (flow < limit), 1, 0), np.minimum(flow, 1))
    reached = np.zeros(nodes, np.bool_)
    reached[breadth_first_order(left, SOURCE, return_predecessors=False)] = True
    return MinimumCut(int(flow[leaving].sum()), reached)


def _graph(nodes: int, heavy_tails: Integers, heads: Integers, ahead: Integers, back: Integers) -> csr_array:
    forward, backward = np.flatnonzero(ahead), np.flatnonzero(back)
    data = np.concatenate((ahead[forward], back[backward])).astype(np.int32)
    rows = np.concatenate((heavy_tails[forward], heads[backward]))
    columns = np.concatenate((heads[forward], heavy_tails[backward]))
    return csr_array((data, (rows, columns)), shape=(nodes, nodes))
