"""Item choice of the pull scheduler: the items that are due, then one after the other those worth their cost."""

from slackwater.kernels.jit import compiled
from slackwater.kernels.pull_risk import gain_of, risk, shared
from slackwater.kernels.pull_tables import Floats, Integers, ItemTable, KnownTable, PullConstants, PulledQueries


@compiled
def take_fresh(table: PulledQueries, known: KnownTable, i: int, wild: float) -> None:
    """Take an item as just pulled: its queries lose its part of their error."""
    for h in range(table.first[i], table.first[i + 1]):
        q = table.holder[h]
        w = table.weights[table.place[h]]
        known.query_mean[q] -= w * known.mean[i]
        part = w * w * known.variance[i]
        if known.common[i] != 0.0:
            part += 2.0 * w * shared(i, q, table.starts, table.items, table.weights, known.common, known.root)
        known.query_variance[q] = max(known.query_variance[q] - part, 0.0)
        known.chance[q] = risk(known.query_mean[q], known.query_variance[q], table.within[q], wild)
    known.mean[i] = 0.0
    known.variance[i] = 0.0
    known.common[i] = 0.0


@compiled
def pull_gain(table: PulledQueries, known: KnownTable, price: Floats, i: int, wild: float) -> float:
    """By how much pulling an item lowers the priced risk of its queries."""
    return gain_of(
        *(i, table.first, table.holder, table.place, table.starts, table.items, table.weights, table.within, price),
        *(known.chance, known.query_mean, known.query_variance, known.mean[i], known.variance[i], known.common),
        *(known.root, wild),
    )


@compiled
def pick_due(table: PulledQueries, items: ItemTable, now: int, longest: int, picked: Integers, c: PullConstants) -> int:
    """Pick what is overdue or still to be learnt; gives how many."""
    count = 0
    for i in range(len(items.value)):
        if table.first[i + 1] == table.first[i] or items.last[i] == now:
            continue
        age = now - items.last[i]
        if (
            items.last[i] < 0
            or age >= longest
            or (items.learnt[i] < c.learning_pulls and age >= 2 ** ((items.learnt[i] + i) % c.learning_cycle))
        ):
            picked[count] = i
            count += 1
    return count


@compiled
def pick_worth(
    table: PulledQueries,
    items: ItemTable,
    known: KnownTable,
    price: Floats,
    costs: Floats,
    now: int,
    wild: float,
    gain: Floats,
    waited: Floats,
    unsure: Integers,
    picked: Integers,
    count: int,
) -> int:
    """Pick one item after the other that is worth its cost; gives how many are picked with those that were."""
    done = 0
    while True:
        while done < count:
            i = picked[done]
            take_fresh(table, known, i, wild)
            done += 1
        most, choice = 1.0, -1
        for i in range(len(items.value)):
            gain[i] = 0.0
            unsure[i] = 0
            if (known.mean[i] == 0.0 and known.variance[i] == 0.0) or items.last[i] == now:
                continue
            # At best a pull takes away all the risk: most items need no closer look to lose against the best.
            bound = 0.0
            for h in range(table.first[i], table.first[i + 1]):
                bound += price[table.holder[h]] * known.chance[table.holder[h]]
            if (bound * (now - items.last[i]) - waited[i]) / costs[i] <= most:
                unsure[i] = 1
                continue
            g = pull_gain(table, known, price, i, wild)
            gain[i] = g
            worth = (g * (now - items.last[i]) - waited[i]) / costs[i]
            if worth > most:
                most = worth
                choice = i
        if choice < 0:
            # Nothing more to pull: what waiting costs is told exactly, for the ticks to come.
            for i in range(len(items.value)):
                if unsure[i] == 1:
                    gain[i] = pull_gain(table, known, price, i, wild)
            return count
        picked[count] = choice
        count += 1
