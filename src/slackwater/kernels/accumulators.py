"""Running accumulators: incremental aggregates over regions in double-double sums, with stale totals marked.

Design
    Of a query over a region only a total is kept, not which rows are in it: memory does not grow with rows. A batch
    takes the parts of rows that left out (`change` with sign −1), then puts the parts of rows that entered in. A row
    that stayed but changed does both.

Mathematics
    Sums are double-double: `high + low`, renormalised after every step, so a step errs by at most about 2⁻¹⁰⁴ of the
    largest magnitude the sum has had since it was last read from the rows. `magnitude` runs along as the sum of the
    parts' magnitudes, in plain doubles, wrong by at most 2⁻⁵² · steps · largest. A total is *trusted* while
        2⁻¹⁰⁰ · steps · largest  ≤  10⁻¹¹ · (magnitude − 2⁻⁵² · steps · largest),
    which is to say while its error is far below 10⁻⁹ of the present magnitudes. That fails when values of 10²⁰⁰ have
    come and gone; then the total is `stale` and has to be read from the rows again. A count of zero is exact by
    itself and begins anew.

    A minimum is kept as long as the row that has it stays, or something not greater enters; otherwise it is stale.

`aggregated_plainly` of `kernels.aggregate_tree` is the oracle here too.
"""

import math

import numpy as np
import numpy.typing as npt

from slackwater.kernels.aggregate_tree import AVG, COUNT, MIN
from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Marks = npt.NDArray[np.uint8]
Records = npt.NDArray[np.void]

ACCUMULATOR = np.dtype(
    [
        ("high", np.float64),  # of a minimum or maximum the value itself
        ("low", np.float64),
        ("magnitude", np.float64),
        ("largest", np.float64),
        ("steps", np.int64),
        ("count", np.int64),
        ("said", np.float64),
        ("within", np.float64),
        ("scale", np.float64),
        ("number", np.int64),
        ("changed", np.int64),
        ("first", np.int64),  # where its weights begin
        ("size", np.int64),  # how many there are; −1 where every row counts once
        ("column", np.int32),
        ("function", np.int8),
        ("there", np.int8),
        ("stale", np.int8),
        ("spare", np.int8),
    ]
)


@compiled
def factor_of(record: Records, weight_slots: Integers, weights: Floats, slot: int) -> float:
    """Weight of a row in a query; NaN where the query does not list it."""
    size = record["size"]
    if size < 0:
        return float(record["scale"])
    low, end = record["first"], record["first"] + size
    high = end
    while low < high:
        middle = (low + high) // 2
        if weight_slots[middle] < slot:
            low = middle + 1
        else:
            high = middle
    if low < end and weight_slots[low] == slot:
        return float(record["scale"] * weights[low])
    return math.nan


@compiled
def add(record: Records, part: float) -> None:
    """Add to a sum: Knuth's two-sum, and Dekker's to renormalise."""
    high = record["high"]
    total = high + part
    rest = total - high
    low = record["low"] + ((high - (total - rest)) + (part - rest))
    record["high"] = total + low
    record["low"] = low - (record["high"] - total)
    record["steps"] += 1


@compiled
def read(records: Records, place: int, parts: Floats) -> None:
    """Begin a sum anew with these parts, as exact as if each of them had entered by itself."""
    record = records[place]
    record["high"], record["low"], record["magnitude"], record["steps"] = 0.0, 0.0, 0.0, 0
    for part in parts:
        add(record, part)
        record["magnitude"] += abs(part)
    record["largest"] = record["magnitude"]


@compiled
def change(
    records: Records,
    weight_slots: Integers,
    weights: Floats,
    rows: Integers,
    places: Integers,
    slots: Integers,
    values: Floats,
    sign: int,
    marks: Marks,
    queue: Integers,
    waiting: int,
) -> int:
    """Take the parts of rows out of their queries (sign −1) or put them in (sign 1).

    Pairs (rows[k], places[k]) say which row lies in whose region; `values` is columns × rows, flat, with NaN for none.
    Queries that were touched are marked and queued; returns how many are in the queue.
    """
    width = len(slots)
    for k in range(len(rows)):
        place, row = places[k], rows[k]
        record = records[place]
        value = values[record["column"] * width + row]
        if value != value:
            continue
        factor = factor_of(record, weight_slots, weights, slots[row])
        if factor != factor:
            continue
        if marks[place] == 0:
            marks[place] = 1
            queue[waiting] = place
            waiting += 1
        record["count"] += sign
        function = record["function"]
        if function == COUNT:
            continue
        part = factor * value + 0.0
        if function >= MIN:
            best = record["high"]
            at_least_as_good = part <= best if function == MIN else part >= best
            if sign < 0:
                if at_least_as_good:
                    record["stale"] = 1
            elif record["count"] == 1 or at_least_as_good:
                record["high"] = part
                record["stale"] = 0
        else:
            add(record, sign * part)
            record["magnitude"] += sign * abs(part)
            record["largest"] = max(record["largest"], record["magnitude"], abs(part))
    return waiting


@compiled
def doubt(records: Records, queue: Integers, waiting: int, marks: Marks) -> int:
    """Reset empty totals, move stale ones to the front of the queue and unmark all; returns how many are stale."""
    stale = 0
    for k in range(waiting):
        place = queue[k]
        marks[place] = 0
        record = records[place]
        function = record["function"]
        if record["count"] == 0:
            record["high"], record["low"], record["magnitude"], record["largest"] = 0.0, 0.0, 0.0, 0.0
            record["steps"], record["stale"] = 0, 0
        elif function < COUNT:
            slack = record["steps"] * record["largest"]
            trusted = 2.0**-100 * slack <= 1e-11 * (record["magnitude"] - 2.0**-52 * slack)
            record["stale"] = 0 if trusted and math.isfinite(record["high"]) else 1
        if record["stale"]:
            queue[k] = queue[stale]
            queue[stale] = place
            stale += 1
    return stale


@compiled
def value_of(record: Records) -> tuple[bool, float]:
    """Value of a query, with a flag that is false where it has none."""
    count, function = record["count"], record["function"]
    if function == COUNT:
        return True, float(count)
    if count == 0:
        return False, 0.0
    value = float(record["high"] / count if function == AVG else record["high"])
    if not math.isfinite(value):
        return False, 0.0
    return True, value


@compiled
def say(records: Records, queue: Integers, waiting: int, position: int, said: Integers) -> int:
    """Publish touched queries that left their bound: `said` gets their places; returns how many there are."""
    count = 0
    for k in range(waiting):
        record = records[queue[k]]
        there, value = value_of(record)
        if there == (record["there"] == 1) and (not there or abs(value - record["said"]) <= record["within"]):
            continue
        record["said"] = value
        record["there"] = there
        record["changed"] = position
        said[count] = queue[k]
        count += 1
    return count
