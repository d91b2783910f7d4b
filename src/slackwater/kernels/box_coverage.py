"""Box coverage: the places that the boxes of queries touch, on a line and in several dimensions.

Boxes and places are in whole coordinates; a box holds low..high along every axis, both included. Box b belongs to query
`owners[b]`, and the boxes of a query stand together: a query that touches a place with two boxes touches it once.

`touching_plainly` is the twin in NumPy: which query touches which place.
"""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@compiled
def _inside(lows: Integers, highs: Integers, box: int, places: Integers, place: int) -> bool:
    for axis in range(places.shape[1]):
        at = places[place, axis]
        if at < lows[box, axis] or at > highs[box, axis]:
            return False
    return True


@compiled
def touch_any(owners: Integers, lows: Integers, highs: Integers, places: Integers, queries: int) -> Flags:
    """Which queries touch at least one of the places."""
    answer = np.zeros(queries, np.bool_)
    for box in range(len(owners)):
        if answer[owners[box]]:
            continue
        for place in range(len(places)):
            if _inside(lows, highs, box, places, place):
                answer[owners[box]] = True
                break
    return answer


@compiled
def weight_at(owners: Integers, lows: Integers, highs: Integers, places: Integers, weights: Floats) -> Floats:
    """The weight of the queries that touch each place."""
    answer = np.zeros(len(places))
    for place in range(len(places)):
        counted = -1
        for box in range(len(owners)):
            if owners[box] != counted and _inside(lows, highs, box, places, place):
                counted = owners[box]
                answer[place] += weights[counted]
    return answer


@compiled
def grab(
    owners: Integers, lows: Integers, highs: Integers, places: Integers, order: Integers, push: Floats, weights: Floats
) -> Flags:
    """Push a place if the weight of its queries is above its cost, else forget these queries; in the given order."""
    answer = np.zeros(len(places), np.bool_)
    gone = np.zeros(len(weights), np.bool_)
    for k in range(len(order)):
        place = order[k]
        weight, counted = 0.0, -1
        for box in range(len(owners)):
            if owners[box] != counted and not gone[owners[box]] and _inside(lows, highs, box, places, place):
                counted = owners[box]
                weight += weights[counted]
        if weight > push[place]:
            answer[place] = True
            continue
        for box in range(len(owners)):
            if not gone[owners[box]] and _inside(lows, highs, box, places, place):
                gone[owners[box]] = True
    return answer


@compiled
def grab_on_a_line(begins: Floats, first_ending: Integers, ending_at: Integers, weights: Floats, push: Floats) -> Flags:
    """As `grab`, on a line from left to right, with one look at each query; arguments as for `pulled`."""
    answer = np.zeros(len(push), np.bool_)
    weight, since = 0.0, -1
    for j in range(len(push)):
        weight += begins[j]
        if weight > push[j]:
            answer[j] = True
            for k in range(first_ending[j], first_ending[j + 1]):
                if ending_at[k] > since:
                    weight -= weights[k]
        else:
            weight, since = 0.0, j
    return answer


def touching_plainly(
    owners: Integers, lows: Integers, highs: Integers, places: Integers, queries: int
) -> npt.NDArray[np.bool_]:
    """Which query touches which place, as a table of queries × places.

    >>> one, two = np.array([[0], [3]]), np.array([[1], [3]])
    >>> touching_plainly(np.array([0, 0]), one, two, np.array([[1], [2], [3]]), 1).tolist()
    [[True, False, True]]
    """
    answer = np.zeros((queries, len(places)), np.bool_)
    for box, owner in enumerate(owners):
        answer[owner] |= ((places >= lows[box]) & (places <= highs[box])).all(axis=1)
    return answer
