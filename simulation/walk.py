"""Workload of worlds with aggregators: random-walk items, and the subscriptions on them."""

from collections.abc import Callable
from random import Random

from simulation.host import PlainHost
from simulation.workload import TABLE, bound
from slackwater.aggregator.base import Item
from slackwater.aggregator.engine import AggregatorEngine
from slackwater.aggregator.mirrored_items import MirroredItems
from slackwater.core.query import StandingQuery
from slackwater.core.schema import TableSchema
from slackwater.core.types import Instant, Key
from slackwater.core.update import Operation, Origin, Update

HELD = TableSchema("items", (TABLE.column("id"), TABLE.column("price")), key=("id",))
"""The table as aggregators hold it."""
NEAR = {1: 1.0, 2: 1.0, 3: 0.5, 4: 2.0, 5: 0.0, 6: 1.0}
"""What an aggregator of the nodes holds each item within."""
FAR = {1: 2.0, 2: 3.0, 3: 0.5, 5: 1.0}
"""The same for one that is stacked on it; an item may be held as closely there as below."""
LISTED = "SELECT {what} FROM items WHERE id IN ({keys})"
WEIGHTED = "SELECT SUM(w * price) FROM items JOIN (VALUES (1, 2.5), (3, -1)) AS p(id, w) USING (id)"


def items(upstream: str, bounds: dict[int, float]) -> tuple[Item, ...]:
    """The items of an aggregator."""
    return tuple(Item(upstream, "items", "price", (key,), within) for key, within in bounds.items())


def item_query(item: Item) -> str:
    """The standing query that holds an item."""
    return f"SUBSCRIBE SELECT SUM(price) FROM items WHERE id = {item.key[0]} WITHIN {item.within:g}"


def subscription(random: Random, bounds: dict[int, float]) -> str:
    """What a client of an aggregator may ask, from the tightest bound it can have to a loose one."""
    kind = random.choice(("SUM(price)", "AVG(price)", "MIN(price)", "MAX(price)", "COUNT(price)", "weighted"))
    if kind == "weighted":
        text, floor = WEIGHTED, 2.5 * bounds[1] + bounds[3]
    else:
        keys = random.choice(((1, 2), (1, 2, 3, 5), (3,), (5,)))
        text = LISTED.format(what=kind, keys=", ".join(map(str, keys)))
        off = [bounds[key] for key in keys]
        floor = {"SUM(price)": sum(off), "COUNT(price)": 0.0}.get(kind, max(off))
    within = floor + random.choice((0.0, 0.5, 2.0))
    return f"SUBSCRIBE {text}" + (f" WITHIN {within:g}" if within else "")


def too_tight(bounds: dict[int, float]) -> str:
    """What has to be refused."""
    within = bounds[1] + bounds[2] - 0.25
    return f"SUBSCRIBE SELECT SUM(price) FROM items WHERE id IN (1, 2) WITHIN {within:g}"


class Walk:
    """Prices that move by small steps, now and then far, or go and come."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._prices = dict.fromkeys(range(1, 9), 50.0)
        self.changes = 0

    def updates(self, many: int) -> list[Update]:
        """Some changes."""
        made = []
        for _ in range(many):
            self.changes += 1
            key = self._random.choice(sorted(self._prices))
            self._prices[key] += self._random.gauss(0, 20 if self._random.random() < 0.05 else 0.8)
            kind = self._random.random()
            price = None if kind < 0.02 else round(self._prices[key], 3)
            row = (key, "a", price, 1, 0)
            operation = Operation.DELETE if kind > 0.96 else Operation.UPSERT
            made.append(Update("items", row, Instant(self.changes), Origin("lab", self.changes), operation))
        return made


class LabAggregatorEngine(AggregatorEngine):
    """The engine of a real aggregator, but for the parsing."""

    def bind(self, sql: str) -> tuple[StandingQuery, str, str | None]:
        """What the engine would find by parsing."""
        found = bound(sql)
        self.mirrored_items.check(found[0], HELD)
        return found


class PlainAggregatorEngine(LabAggregatorEngine):
    """The same with a host that is quick where there is little to do."""

    def __init__(self, mirrored_items: MirroredItems, doubt: Callable[[str], str | None]) -> None:
        super().__init__(mirrored_items, doubt)
        self.host: PlainHost = PlainHost()

    def keys(self, table: str) -> list[Key]:
        """The keys of the rows that there are."""
        return self.host.keys()

    def last_of(self, table: str, source: str) -> tuple[int, int]:
        """The latest event time of the table, and the greatest sequence number of a source."""
        return self.host.last_of(source)
