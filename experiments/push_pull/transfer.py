"""Preprocessing of M3: the places that are PUSH in every optimal labelling.

A place whose updates cost no more than its transfer when pulled is PUSH: labelling it so saves at least what it costs,
and can only spare queries. Such places are taken out; what is left is a smaller workload with the same decisions. Then
places that the same queries touch can be joined again, as in M1 and M2: if one of them is PULL all these queries pay
their setup, so each of the others is PULL too, as its transfer is below its cost of pushing.
"""

import numpy as np

from slackwater.planning.push_pull.base import Flags, Labeller, Labelling, Moves, Workload


def pushed_at_once(workload: Workload) -> Flags:
    """Which places are PUSH by themselves; not where rows move, since such an update is shared with another place."""
    answer = workload.push <= workload.transfer
    answer[workload.moves.places.ravel()] = False
    return answer


def without_pushed(workload: Workload, labeller: Labeller) -> Labelling:
    """Take out what is PUSH at once, and let the labeller decide the rest."""
    sure = pushed_at_once(workload)
    rest = np.flatnonzero(~sure)
    numbers = np.zeros(len(sure), np.int64)
    numbers[rest] = np.arange(len(rest))
    smaller = Workload(
        workload.queries,
        workload.places[rest],
        workload.push[rest],
        workload.transfer[rest],
        Moves(numbers[workload.moves.places], workload.moves.costs),
    )
    decided = labeller(smaller)
    push = sure.copy()
    push[rest] = decided.push
    return Labelling.of(workload, push, decided.at_least + float(workload.push[sure].sum()))
