"""Label planner: relabels clients' caches from recent queries and changes, beside a node.

Once in a while each cache of which enough is new is labelled afresh over a window of its last questions and of the
table's last changes; what is worth it goes into the log as other labels under the next epoch, and takes effect when it
is read back from there. Planning runs on a thread. Labels that were planned elsewhere (`core.labels.Labels`) are taken
the same way. A node that only follows a log plans nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slackwater.core.errors import SlackwaterError
from slackwater.core.labels import Labels
from slackwater.core.region import Region
from slackwater.core.types import Position
from slackwater.kinds.cache.query import CacheQuery
from slackwater.kinds.checks import check_region
from slackwater.log import Registered
from slackwater.planning.push_pull.encoding import Asked, Changed
from slackwater.planning.push_pull.label_one import Window, attributes, label, worthwhile
from slackwater.planning.push_pull.region_map import RegionMap
from slackwater.processing.base import Changes
from slackwater.processing.regions import inside
from slackwater.server.group_commit import Target
from slackwater.server.planners.base import NodePlanner
from slackwater.sessions.cache_queries import CacheQueries, relabelled
from slackwater.sessions.query_registry import RegisteredQuery
from slackwater.sessions.wire import projected

if TYPE_CHECKING:
    from slackwater.server.node import Node

_report = logging.getLogger("slackwater.server")

LOOK_SECONDS = 0.25
MOST_CONTENT = 16
"""Labels that are still the best are reviewed half as often the next time; this is the largest factor."""


@dataclass(frozen=True, slots=True)
class LabellingRules:
    """When labels are made anew. `every`: after so many questions of a cache; 0 is never."""

    every: int = 200
    window: int = 5_000
    """Changes of a table that are remembered."""
    lasting: float = 4.0
    """Windows that labels are expected to last: a fill has to pay within that time."""


class LabelPlanner(NodePlanner):
    """The planner of one node."""

    def __init__(self, node: "Node", rules: LabellingRules) -> None:
        self._node = node
        self._rules = rules
        self._changes: dict[str, deque[Changes]] = {}
        self._remembered: dict[str, int] = {}
        self._planning = False
        node.engine.host.watchers.append(self.changed)

    @property
    def _questions(self) -> CacheQueries:
        return self._node.sessions.state.questions

    def changed(self, changes: Changes) -> None:
        """Record the changes of a batch to a table that has caches."""
        if not self._questions.asked or self._rules.every == 0:
            return
        kept = self._changes.setdefault(changes.table, deque())
        kept.append(changes)
        size = self._remembered.get(changes.table, 0) + len(changes)
        while size - len(kept[0]) >= self._rules.window:
            size -= len(kept.popleft())
        self._remembered[changes.table] = size

    # Planning.

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """Background task of the planner."""
        return [self.run()]

    async def run(self) -> None:
        """Look after the labels of all caches, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for table in self._changes.keys() - self._node.engine.host.tables:
                # It was dropped.
                del self._changes[table], self._remembered[table]
            for kept, cache in self._questions.caches():
                try:
                    await self._look(kept, cache)
                except SlackwaterError as error:
                    _report.warning("labels of %s could not be made: %s", kept.text, error)
                except Exception:
                    # Whatever a client has asked: the node goes on, and this cache keeps its labels until it has been
                    # asked enough other things.
                    _report.exception("labels of %s could not be made; what it was asked is forgotten", kept.text)
                    self._questions.forget(kept)

    async def _look(self, kept: RegisteredQuery, query: CacheQuery) -> None:
        asked = self._questions.asked.get(kept.number)
        if not self._node.writable or kept.since is None:
            return
        columns = tuple(column.name for column in self._node.engine.schema(query.table).columns)
        if query.columns != columns:
            # The table has got more columns: the same rows, all of them, under the next epoch.
            await self._append(relabelled(kept, query.region, columns))
            return
        if self._rules.every == 0 or asked is None or asked.since < self._rules.every * asked.content:
            return
        asked.since = 0
        window = self.window(kept)
        rows, schema = self._node.engine.host.latest(query.table).rows, self._node.engine.schema(query.table)

        def rows_in(region: Region) -> int:
            return int(inside(region, schema, rows).sum())

        def plan() -> Region | None:
            pushed = label(window, rows_in, query.limit)
            fill = rows_in(pushed.subtract(query.region))
            return pushed if worthwhile(window, query.region, pushed, fill, self._rules.lasting) else None

        pushed = await asyncio.to_thread(plan)
        asked.content = 1 if pushed is not None else min(2 * asked.content, MOST_CONTENT)
        if pushed is not None and self._node.sessions.state.subscriptions.queries.get(kept.number) is kept:
            await self._append(relabelled(kept, pushed))

    def window(self, kept: RegisteredQuery) -> Window:
        """Recent queries of a cache, and recent changes of its table."""
        questions = self.asked(kept)
        columns = attributes(questions)
        changed: list[Changed] = []
        for changes in self._changes.get(kept.query.table, ()):
            if not set(columns) <= set(changes.after.schema.names):
                continue
            before, after = projected(changes.before, columns), projected(changes.after, columns)
            pairs = zip(before, after, changes.had.tolist(), changes.has.tolist(), strict=True)
            for old, new, had, has in pairs if columns else ():
                place = dict(zip(columns, new if has else old, strict=True))
                was = dict(zip(columns, old, strict=True)) if had and has and old != new else None
                changed.append(Changed(place, was))
        return Window(questions, tuple(changed))

    def asked(self, kept: RegisteredQuery) -> tuple[Asked, ...]:
        """Recent queries of a cache, every region once."""
        asked = self._questions.asked.get(kept.number)
        times: dict[Region, int] = {}
        for region, many in [] if asked is None else asked.recent:
            times[region] = times.get(region, 0) + many
        return tuple(Asked(region, times=many) for region, many in times.items())

    # Labels in the log.

    async def take(self, labels: Iterable[Labels]) -> tuple[int, int, Position]:
        """Give caches the labels that were planned elsewhere; how many were taken and passed over, and the end."""
        known = {(cache.client, cache.table): kept for kept, cache in self._questions.caches()}
        records, passed = [], 0
        for one in labels:
            kept = known.get((one.client, one.table))
            if kept is None or one.epoch <= kept.epoch:
                passed += 1
                continue
            self._node.engine.check_question((one.table,))
            check_region(one.pushed, self._node.engine.schema(one.table))
            record = relabelled(kept, one.pushed)
            records.append(replace(record, epoch=one.epoch))
        position = await self._append(*records)
        return len(records), passed, position

    async def _append(self, *records: Registered) -> Position:
        def change(target: Target) -> Position:
            return target.log.append([*records]) if records else target.log.end

        return await self._node.change(change, max(1, len(records)))

    # What can be told about it.

    def caches(self) -> list[tuple[RegisteredQuery, CacheQuery]]:
        """Every cache, in order of their numbers."""
        return sorted(self._questions.caches(), key=lambda one: one[0].number)

    def map(self, kept: RegisteredQuery, cache: CacheQuery) -> RegionMap:
        """The regions that are pushed to one cache."""
        questions = self.asked(kept)
        pushed = cache.pushed
        columns = tuple(dict.fromkeys(column for box in pushed for column in box.columns)) or attributes(questions)
        rows = self._node.engine.select(cache.table, pushed).num_rows
        asked = tuple((one.region, one.times) for one in questions)
        return RegionMap(
            cache.client, cache.table, kept.epoch, int(kept.since or 0), columns, pushed, rows=rows, asked=asked
        )
