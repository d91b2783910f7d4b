"""Sliding-window relabelling: exact labels over the last L events when a trigger fires, shipped rows counted.

Design
    Making labels (`best_cover`): the exact labelling of the window; what is pushed are the queries it answers at home,
    joined.

    With `forget`, events that came before the present labels and are already paid for are left out first: updates that
    were pushed, queries that were answered at home, and of other queries the pieces that were pushed. Such a query is
    then in several pieces, and the minimum cut labels it.

    A range that turns from PULL to PUSH ships what the client misses there: one message for every value that has
    changed since it was last known, however long ago. That is part of what is minimised: such a value is a place whose
    pushing costs its updates in the window and 1/`lasting` of a message, as labels are expected to last so many
    windows. So a region is taken over when it earns its fill within that time, and one region does not wait for
    another.
"""

from dataclasses import dataclass, field

import numpy as np

from experiments.push_pull.drift import Cover, Events, Trigger
from experiments.push_pull.number_ranges import NumberRanges, on_a_line
from slackwater.core.errors import PlanningError
from slackwater.planning.push_pull.base import Floats, Queries, Workload
from slackwater.planning.push_pull.exact import exact


@dataclass(frozen=True, slots=True)
class StretchCost:
    """Cost of a stretch of events: the events themselves, and the rows shipped when labels changed."""

    events: float
    fill: float
    labelled: bool


def best_cover(
    window: Events, missed: Floats | None = None, fee: float = 0.0, old: int = 0, pushed: Cover | None = None
) -> Cover:
    """Choose the ranges to push for these events, with a fee for each missed value.

    Of the first `old` events what `pushed` has already settled is left out.
    """
    missed = np.zeros(0) if missed is None else missed
    kept = np.arange(len(window))
    if pushed is not None:
        settled = pushed.covers(window.low, window.high)
        kept = kept[(kept >= old) | ~settled]
    events = window.where(kept)
    asked, changed = events.where(np.flatnonzero(events.asks)), events.where(np.flatnonzero(~events.asks))
    values = np.concatenate((changed.low, missed))
    costs = np.concatenate((changed.cost, np.full(len(missed), fee)))
    workload = on_a_line(NumberRanges(asked.low, asked.high), asked.cost, values, costs)
    if pushed is not None:
        workload = _in_pieces(workload, np.unique(values), kept[events.asks] < old, pushed)
    home = ~workload.pulled_queries(exact(workload).push)
    return Cover.of(asked.low[home], asked.high[home])


def _in_pieces(workload: Workload, values: Floats, old: np.typing.NDArray[np.bool_], pushed: Cover) -> Workload:
    """Take out of old queries the places that were pushed."""
    open_places = np.flatnonzero(~pushed.covers(values, values))
    queries = workload.queries
    owners, lows, highs = [], [], []
    for owner, low, high in zip(queries.owners, queries.lows[:, 0], queries.highs[:, 0], strict=True):
        if not old[owner]:
            owners.append(owner)
            lows.append(low)
            highs.append(high)
            continue
        own = open_places[np.searchsorted(open_places, low) : np.searchsorted(open_places, high, "right")]
        breaks = np.flatnonzero(np.diff(own) > 1)
        if len(own):
            begins, ends = own[np.concatenate(([0], breaks + 1))], own[np.concatenate((breaks, [len(own) - 1]))]
            owners += [owner] * len(begins)
            lows += begins.tolist()
            highs += ends.tolist()
    pieces = Queries(
        queries.setup,
        np.array(owners, np.int64),
        np.array(lows, np.int64).reshape(-1, 1),
        np.array(highs, np.int64).reshape(-1, 1),
    )
    return Workload(pieces, workload.places, workload.push, workload.transfer, workload.moves)


@dataclass(slots=True)
class Windowed:
    """Follows events and keeps what is pushed up to date; the first labels are made when `first` events are known."""

    trigger: Trigger
    window: int = 20_000
    lasting: float = 4.0
    first: int = 200
    forget: bool = False
    cover: Cover = field(default_factory=Cover.nothing)
    labelled: Events = field(default_factory=lambda: Events.joined(()))
    since: Events = field(default_factory=lambda: Events.joined(()))
    missed: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if self.window < 1 or not self.lasting > 0:
            raise PlanningError(f"a window holds at least one event and labels last, not {self.window}, {self.lasting}")

    def observe(self, events: Events) -> StretchCost:
        """Take events in, as they were paid for under the present labels, and label anew when it is time."""
        paid = float(self.cover.paid(events).sum())
        changed = events.low[~events.asks]
        self.missed = np.union1d(self.missed, changed[~self.cover.covers(changed, changed)])
        self.since = Events.joined((self.since, events))
        due = len(self.since) >= self.first if not len(self.labelled) else self._fires()
        if not due:
            return StretchCost(paid, 0.0, labelled=False)
        return StretchCost(paid, self.label(), labelled=True)

    def _fires(self) -> bool:
        return self.trigger.fires(self.labelled, self.since, self.cover)

    def label(self) -> float:
        """Label anew over the window; what that ships."""
        known = Events.joined((self.labelled, self.since))
        window = known.part(len(known) - self.window, len(known))
        old = max(0, len(window) - len(self.since))
        settled = self.cover if self.forget else None
        self.cover = best_cover(window, self.missed, 1.0 / self.lasting, old, settled)
        self.labelled, self.since = window, Events.joined(())
        wanted = self.cover.covers(self.missed, self.missed)
        self.missed = self.missed[~wanted]
        return float(wanted.sum())
