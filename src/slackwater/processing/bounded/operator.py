"""Bounded-aggregate operator: SUM, AVG, COUNT, MIN and MAX with WITHIN.

Design
    Aggregates that list their items are kept in `ListedAggregates`, one for each table and column: a change goes to
    the queries that list the item, and those that may have left their bound are computed anew from their few items.
    Aggregates over regions are kept in one `RegionalAggregates` for each table: an index finds whose region a row left
    and entered, and running totals follow.

    A bound with FIDELITY below 1 is kept always: fewer messages would be allowed, wrong ones not needed.

    A structure goes with its last query, so that a table that is dropped and made again begins from nothing.
"""

from typing import Any

from slackwater.core.query import Aggregate, StandingQuery
from slackwater.core.types import Position
from slackwater.processing import state
from slackwater.processing.base import Answer, Changes, Latest, Notifications, TableOperator
from slackwater.processing.bounded.column_aggregates import ListedAggregates
from slackwater.processing.bounded.item_list import listed
from slackwater.processing.bounded.regional import RegionalAggregates
from slackwater.processing.concatenate import gathered
from slackwater.processing.regions import Sheet

_ForestKey = tuple[str, str | None]


class BoundedAggregates(TableOperator):
    """Bounded aggregates by incremental maintenance."""

    name = "BoundedAggregates"

    def __init__(self) -> None:
        self._forests: dict[_ForestKey, ListedAggregates] = {}
        self._regionals: dict[str, RegionalAggregates] = {}
        self._homes: dict[int, _ForestKey | str] = {}

    @property
    def touches(self) -> int:
        """How many memberships of changed items in queries were looked at so far."""
        return sum(forest.touches for forest in self._forests.values())

    def accepts(self, query: StandingQuery) -> bool:
        """Aggregates of every kind."""
        return isinstance(query, Aggregate)

    def register(self, number: int, query: StandingQuery, latest: Latest, position: Position) -> Answer:
        """Keep a query from now on."""
        assert isinstance(query, Aggregate)
        self.unregister(number, position)
        members = listed(query, latest)
        if members is None:
            regional = self._regionals.get(query.table)
            if regional is None:
                regional = self._regionals[query.table] = RegionalAggregates()
            slots = latest.slots_of([weight.key for weight in query.weights or ()])
            value = regional.add(number, query, slots, latest, position)
            self._homes[number] = query.table
            return Answer(number, position, value)
        key = (query.table, query.column)
        forest = self._forests.get(key)
        if forest is None:
            rows = latest.rows
            numbers = Sheet(rows, latest.slots >= 0).numbers(query.column)
            forest = self._forests[key] = ListedAggregates(latest.slots, numbers)
        slots_listed, factors = members
        value = forest.add(number, query.function, slots_listed, factors, query.bound.within, position)
        self._homes[number] = key
        return Answer(number, position, value)

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query."""
        home = self._homes.pop(number, None)
        if isinstance(home, str):
            self._regionals[home].remove(number)
            if not len(self._regionals[home]):
                del self._regionals[home]
        elif home is not None:
            self._forests[home].remove(number)
            if not len(self._forests[home]):
                del self._forests[home]

    def apply(self, changes: Changes, latest: Latest, position: Position) -> Notifications:
        """Apply changes, and publish the values that left their bound."""
        after = Sheet(changes.new, changes.has)
        outputs = [
            forest.apply(changes.slots, after.numbers(column), position)
            for (table, column), forest in self._forests.items()
            if table == changes.table
        ]
        regional = self._regionals.get(changes.table)
        if regional is not None:
            before = Sheet(changes.old, changes.had)
            outputs.append(regional.apply(changes, before, after, latest, position))
        return Notifications(position, outputs[0] if len(outputs) == 1 else gathered(outputs))

    def answer(self, number: int, latest: Latest) -> Answer:
        """Everything published of a query so far."""
        home = self._homes[number]
        kept = self._regionals[home] if isinstance(home, str) else self._forests[home]
        value, changed = kept.published(number)
        return Answer(number, changed, value)

    def foresee(self, query: StandingQuery, latest: Latest) -> None:
        """Sums are added in the order of slots, so hosts that share queries must number keys alike."""
        assert isinstance(query, Aggregate)
        if listed(query, latest) is None:
            latest.slots_of([weight.key for weight in query.weights or ()])

    def weight(self, number: int, query: StandingQuery) -> int:
        """A change of each item of a list is looked at."""
        assert isinstance(query, Aggregate)
        return len(query.weights) if query.weights else 1

    def snapshot(self) -> bytes:
        """The whole state."""
        forests = sorted(self._forests.items(), key=lambda one: (one[0][0], one[0][1] or ""))
        return state.pack(
            "bounded aggregates",
            {
                "forests": [[*key, forest.parts()] for key, forest in forests],
                "regionals": [[table, regional.parts()] for table, regional in sorted(self._regionals.items())],
            },
        )

    def restore(self, body: bytes) -> None:
        """Restore the state from a snapshot."""
        parts: dict[str, Any] = state.unpack("bounded aggregates", body)
        self._forests = {(table, column): ListedAggregates.of(own) for table, column, own in parts["forests"]}
        self._regionals = {table: RegionalAggregates.of(own) for table, own in parts["regionals"]}
        self._homes = {
            **{number: key for key, forest in self._forests.items() for number in forest.numbers},
            **{number: table for table, regional in self._regionals.items() for number in regional.numbers},
        }
