"""Minimum cut: the exact labelling for any number of attributes.

Mathematics
    Paying for a query unless all its places are PUSH is a closure problem. Cut the graph
        source → query            its setup          cut when the query is pulled
        query → place             endless            a query that is not pulled has only PUSH places
        source → place            its transfer       cut when the place is PULL
        place → sink              its updates        cut when the place is PUSH
        place → move → sink       endless, its cost  cut when one of the two places is PUSH
    between PUSH (with the source) and PULL (with the sink): the capacity of a cut is what the labelling costs. The
    maximum flow is a certificate: no labelling costs less (`Labelling.at_least`).

Design
    Only places need nodes, since nothing is paid between them. A query reaches its places through the nodes of a tree
    over them (`kernels.kd_tree`), so that it has few edges however many places it holds. Queries that touch no place
    are left out.
"""

import numpy as np

from slackwater.kernels.kd_tree import halve, made_up
from slackwater.planning.push_pull.base import Floats, Integers, Labelling, Workload
from slackwater.planning.push_pull.flow import ENDLESS, SINK, SOURCE, smallest_cut, unit_of


def exact_by_cut(workload: Workload) -> Labelling:
    """Label at the least cost, whatever the number of attributes."""
    queries, moves = workload.queries, workload.moves
    count = len(workload.places)
    if not count:
        return Labelling.of(workload, np.ones(0, np.bool_))
    children, lows, highs = halve(workload.places)
    owners, reach = made_up(queries.owners, queries.lows, queries.highs, children, lows, highs)
    pairs = np.unique(np.stack((owners, reach), axis=1), axis=0)
    asking = np.unique(pairs[:, 0])
    nodes = 2 + len(queries) + len(lows) + len(moves)
    query, tree, move = 2, 2 + len(queries), 2 + len(queries) + len(lows)

    heavy_tails: list[Integers] = []
    heads: list[Integers] = []
    capacities: list[Integers] = []
    unit = unit_of(np.concatenate((queries.setup, workload.push, workload.transfer, moves.costs)))

    def edges(tail: Integers, head: Integers, costs: Floats | None) -> None:
        kept = np.flatnonzero(costs > 0) if costs is not None else np.arange(len(tail))
        heavy_tails.append(tail[kept])
        heads.append(head[kept])
        endless = np.full(len(kept), ENDLESS)
        capacities.append(endless if costs is None else np.rint(costs[kept] / unit).astype(np.int64))

    everywhere = np.arange(count)
    edges(np.full(len(asking), SOURCE), query + asking, queries.setup[asking])
    edges(query + pairs[:, 0], tree + pairs[:, 1], None)
    inner = np.repeat(np.arange(count, 2 * count - 1), 2)
    edges(tree + inner, tree + children.ravel(), None)
    edges(np.full(count, SOURCE), tree + everywhere, workload.transfer)
    edges(tree + everywhere, np.full(count, SINK), workload.push)
    numbers = np.arange(len(moves))
    edges(tree + moves.places[:, 0], move + numbers, None)
    edges(tree + moves.places[:, 1], move + numbers, None)
    edges(move + numbers, np.full(len(moves), SINK), moves.costs)

    cut = smallest_cut(nodes, np.concatenate(heavy_tails), np.concatenate(heads), np.concatenate(capacities))
    push = cut.reached[tree : tree + count]
    return Labelling.of(workload, push, cut.value * unit)
