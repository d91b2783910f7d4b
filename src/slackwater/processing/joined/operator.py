"""Join operator: pairs of rows that enter, change in or leave the answers of standing joins.

Design
    Joins of one shape are a family and share a matcher (`family`). A batch asks each family that reads a changed table
    twice: which results have the changed rows as they were, which have them as they are. Both tables may have changed
    in the same batch; then both ask, before anything is taken in and after everything was, and a result that two ask
    for is one. Only in the first: the pair left. Only in the second: it entered. In both: it is mentioned where a
    column that the query shows is another one now.

    Neither rows nor answers are kept: the published answer of a join is the latest state of its tables, joined. So a
    snapshot is the queries alone, and families have their rows again with the first batch after it.

    The published rows have the columns of both tables (`kinds.join.schema`); their slot is that of the pair.

Shards
    Where several shards share the rows of joins (`shard`), each also finds the results of joins that another one
    keeps: those are *guests* here. A pair whose left row has come from another shard is new here though it may not be
    new at all; the other shard reports that it left. So a pair that shows nothing new is reported as *staying,
    if it was there* (`STAYS`), and the merge of the shards' outputs settles it.
"""

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from slackwater.core.errors import AnswerTooLarge, NotSupported
from slackwater.core.query import Join, StandingQuery
from slackwater.core.types import Position
from slackwater.kinds.join.schema import joined_name, joined_schema
from slackwater.kinds.registry import plain_query, query_of
from slackwater.processing import state
from slackwater.processing.base import (
    Answer,
    Changes,
    Flags,
    Integers,
    Latest,
    Notifications,
    Operator,
    Partitioning,
    RowKind,
    Rows,
)
from slackwater.processing.changed_columns import Words, bits_of, differing, words_for
from slackwater.processing.joined.answers import Answers, side_by_side
from slackwater.processing.joined.family import Family, Pairs, slots_of
from slackwater.processing.joined.lower import FamilyShape, Range, lowered
from slackwater.processing.joined.sample import LineSample, some_of, survey
from slackwater.processing.joined.shard import ComparedColumns, ShardPart, line_of, line_of_query
from slackwater.processing.joined.warm_up import rehearse
from slackwater.processing.matching.base import JoinSide
from slackwater.processing.matching.result_limits import Labour
from slackwater.processing.regions import Sheet
from slackwater.sql.explain_tree import Detail, ExplainTree

STAYS = 2
"""Of a shard: the pair is in the answer; it was before and shows nothing new, if another shard reports that it left."""

_STEP_ROWS = 8_192
"""Rows of a step by which a join that was halted is measured."""

_Which = tuple[FamilyShape, bool]
"""A family: its shape, and whether it has a shard's rows or all."""


class StandingJoins(Operator):
    """Joins by incremental maintenance."""

    name = "StandingJoins"
    partitioning = Partitioning.BY_RANGE
    most_pairs: ClassVar[int] = 1_000_000
    """Pairs of the answer of a join that strangers may ask for."""
    most_shapes: ClassVar[int] = 256
    """Shapes of all joins that strangers may ask for: each has the rows of both its tables in an index of its own."""

    def __init__(self, most_results: int | None = None, most_steps: int | None = None) -> None:
        self.most_results = most_results
        """Results that rows of one table may give the joins of one shape in one step; all of them are in memory at
        once. Beyond that, some joins are published *anew*, see `base.Notifications`."""
        self.most_steps = most_steps
        """Steps (`matching.limited`) that all joins may take in one step of the log. Beyond that, some are *halted*."""
        self._halted: dict[int, str] = {}
        """Joins that are not matched, and why, until they are woken; whole answers are found of them as of others."""
        self._queries: dict[int, Join] = {}
        self._changed: dict[int, Position] = {}
        self._shapes: dict[int, _Which] = {}
        """Of the queries that can have an answer at all."""
        self._families: dict[_Which, Family] = {}
        self._restored: dict[int, None] = {}
        """Queries that are not in their families yet."""
        self._answers = Answers()
        self._part: ShardPart | None = None
        self._guests: set[int] = set()
        self._widest: dict[ComparedColumns, Range] = {}
        """The ends of all bounded bands that there have been on a line."""
        self.met, self.had = 0, 0
        """Rows that families had to look at, as they were and as they are; and those of them that were had here."""

    def __len__(self) -> int:
        return len(self._queries)

    def accepts(self, query: StandingQuery) -> bool:
        """Joins of both kinds."""
        return isinstance(query, Join)

    def register(self, number: int, query: StandingQuery, tables: Mapping[str, Latest], position: Position) -> Answer:
        """Keep a query from now on."""
        assert isinstance(query, Join)
        self.unregister(number, position)
        self._queries[number], self._changed[number] = query, position
        self._found(tables)
        self._join(number, tables)
        return self.answer(number, query, tables)

    def unregister(self, number: int, position: Position) -> None:
        """Forget a query."""
        if self._queries.pop(number, None) is None:
            return
        del self._changed[number]
        self._restored.pop(number, None)
        self._guests.discard(number)
        self._halted.pop(number, None)
        which = self._shapes.pop(number, None)
        if which is not None:
            family = self._families[which]
            family.remove(number)
            if not len(family):
                del self._families[which]
                self._answers.forget(family.shape)

    def apply(self, changes: Sequence[Changes], tables: Mapping[str, Latest], position: Position) -> Notifications:
        """Find the pairs that entered, changed or left."""
        self._found(tables)
        if not self._families:
            return Notifications(position)
        by_table = {one.table: one for one in changes if len(one)}
        found: dict[tuple[str, str], list[tuple[Pairs, Pairs]]] = {}
        crowded: list[int] = []
        halted: list[int] = []
        concerned = [
            (shape, family)
            for (shape, _), family in self._families.items()
            if shape.left in by_table or shape.right in by_table
        ]
        # Those that took least last time come first: what one shape does not need is for those after it.
        concerned.sort(key=lambda one: one[1].steps)
        left_over = self.most_steps
        for nth, (shape, family) in enumerate(concerned):
            own = {side: by_table[shape.table(side)] for side in JoinSide if shape.table(side) in by_table}
            labour = Labour(None if left_over is None else left_over // (len(concerned) - nth))
            met, asked = family.met, family.asked
            results = family.apply(own, tables, position, self.most_results, labour)
            found.setdefault((shape.left, shape.right), []).append(results)
            crowded += family.crowded
            self._halted.update((number, _why(steps, labour)) for number, steps in labour.left_out.items())
            halted += labour.left_out
            left_over = None if left_over is None else max(left_over - labour.steps, 0)
            self.met += family.met - met
            self.had += family.asked - asked
        crowded.sort()
        without = sorted((*crowded, *halted))
        self._changed.update(dict.fromkeys(without, position))
        outputs = []
        for (left, right), parts in sorted(found.items()):
            if without:
                parts = [(_without(old, without), _without(new, without)) for old, new in parts]
            rows = self._published_rows(by_table, tables[left], tables[right], parts, position)
            if rows is not None:
                outputs.append(rows)
        return Notifications(position, rows=tuple(outputs), anew=tuple(crowded), halted=tuple(sorted(halted)))

    def answer(self, number: int, query: StandingQuery, tables: Mapping[str, Latest]) -> Answer:
        """Everything published of a query so far."""
        assert isinstance(query, Join)
        return Answer(
            number, self._changed[number], rows=self._answers.answer(query, tables[query.left], tables[query.right])
        )

    @property
    def halted(self) -> Mapping[int, str]:
        """Joins that are not matched until they are woken, and why."""
        return self._halted

    @property
    def counters(self) -> Mapping[str, int]:
        """How many joins there are; rows that they had to look at, and those of them that were had here."""
        return {"joins": len(self._queries), "met": self.met, "had": self.had}

    def limit(self, results: int, steps: int) -> None:
        """See `most_results` and `most_steps`."""
        self.most_results, self.most_steps = results, steps

    def family(self, query: StandingQuery) -> Hashable | None:
        """The shape: joins of one shape share the indexes of their rows."""
        assert isinstance(query, Join)
        return lowered(query)[0]

    def check_families(self, query: StandingQuery, known: Container[Hashable], count: int) -> None:
        """Each shape has the rows of both its tables in an index of its own."""
        if count >= self.most_shapes and self.family(query) not in known:
            raise NotSupported(
                f"there are joins of {self.most_shapes} shapes already, as many as are kept; join the same columns, "
                f"and give ranges for the same columns, as others do (GET /v1/joins shows those of a server)"
            )

    def weight(self, number: int, query: StandingQuery) -> int:
        """Nothing, where every shard finds a part of it."""
        return 0 if self.spread_by_rows(number) else 1

    def explain(self, query: StandingQuery, tables: Mapping[str, Latest], position: Position) -> ExplainTree | None:
        """How a join is matched together with those of its shape that stand already."""
        assert isinstance(query, Join)
        family = self.founded(tables).get(lowered(query)[0])
        if family is None:
            return ExplainTree("matching", (Detail("joins of this shape", 0),))
        now = family.moment(position)
        routes = tuple(Detail(name, _percent(share), "%") for name, share in family.routes.items())
        return ExplainTree(
            "matching",
            (
                Detail("joins of this shape", now.queries),
                Detail("stabbing groups", now.groups),
                Detail("hot groups", now.hot_groups),
                Detail("hot share", _percent(now.hot_share), "%"),
                Detail("rows matched", family.asked),
            ),
            (ExplainTree("routes", routes),),
        )

    def settle(self, tables: Mapping[str, Latest]) -> None:
        """Bring all joins into families: a snapshot is read without that."""
        self._found(tables)

    @property
    def cold(self) -> bool:
        """Whether the kernels of matching are still to be compiled."""
        return not rehearse.cache_info().currsize

    def warm_up(self) -> None:
        """Compile the kernels of matching."""
        rehearse()

    def check_size(self, query: StandingQuery, tables: Mapping[str, Latest]) -> None:
        """Refuse a join whose answer has more pairs by now than are kept."""
        assert isinstance(query, Join)
        self._answers.check(query, tables[query.left], tables[query.right], self.most_pairs)

    def wake(self, number: int, tables: Mapping[str, Latest]) -> None:
        """Match a join again that was halted, unless it would be again; then return the reason.

        It is measured by a step in which as many rows change on both sides as a step of the log has at most.
        """
        if number not in self._halted:
            return
        query = self._queries[number]
        steps = self._answers.steps(query, tables[query.left], tables[query.right], _STEP_ROWS)
        if self.most_steps is not None and steps > self.most_steps:
            raise AnswerTooLarge(_why(steps, Labour(self.most_steps)))
        _, ranges = lowered(query)
        assert ranges is not None
        self._families[self._shapes[number]].wake(number, ranges)
        del self._halted[number]

    def snapshot(self) -> bytes:
        """The whole state; halted joins are found out again."""
        kept: list[Any] = [
            [number, plain_query(self._queries[number]), int(self._changed[number])]
            for number in sorted(self._queries.keys() - self._guests)
        ]
        return state.pack("joins", {"kept": kept})

    def restore(self, body: bytes) -> None:
        """Restore the state from a snapshot."""
        for kept in (self._queries, self._changed, self._shapes, self._families, self._restored, self._halted):
            kept.clear()
        self._guests.clear()
        self._widest.clear()
        self._answers, self.met, self.had = Answers(), 0, 0
        for number, plain, changed in state.unpack("joins", body)["kept"]:
            query = query_of(plain)
            assert isinstance(query, Join)
            self._queries[number], self._changed[number] = query, Position(changed)
            self._restored[number] = None

    # ---- shards

    def spread(self, part: ShardPart | None) -> None:
        """Be one of several shards from now on, or the only one. Guests are registered again when it was."""
        if part == self._part:
            return
        for number in sorted(self._guests) if part is None else ():
            self.unregister(number, Position(0))
        former, lines = (() if one is None else one.lines for one in (self._part, part))
        self._part = part
        # What lies on lines that are cut as before stays as it is.
        others = {one.line for one in {*former} ^ {*lines}}
        self._families = {which: one for which, one in self._families.items() if line_of(which[0]) not in others}
        for number, query in self._queries.items():
            if line_of_query(query) in others:
                self._shapes.pop(number, None)
                self._restored[number] = None

    def attends(self, number: int) -> bool:
        """Whether a join is known here."""
        return number in self._queries

    def attend(self, number: int, query: StandingQuery, position: Position) -> bool:
        """Another shard keeps a query: find its results with the rows that are had here."""
        assert isinstance(query, Join)
        self.unregister(number, position)
        self._queries[number], self._changed[number] = query, position
        self._guests.add(number)
        self._restored[number] = None
        return True

    def spread_by_rows(self, number: int) -> bool:
        """Whether a query is found by all shards, each with its own rows."""
        return number in self._shapes and self._shapes[number][1]

    def survey(
        self, tables: Mapping[str, Latest], shards: int, others: Iterable[StandingQuery] = ()
    ) -> list[LineSample]:
        """Sample the distribution of rows and joins along every partitioned line, for so many shards.

        `others` are joins, or some of them, that are not known here.
        """
        bands: dict[ComparedColumns, list[Range]] = {}
        for query in (*(self._queries[number] for number in some_of(self._queries, len(self._queries))), *others):
            assert isinstance(query, Join)
            shape, ranges = lowered(query)
            if ranges is not None:
                bands.setdefault(line_of(shape), []).append(ranges.band)
        for line, widest in self._widest.items():
            if line in bands:
                bands[line].append(widest)
        cuts = {} if self._part is None else {one.line: one for one in self._part.lines}
        return [survey(line, np.array(some), tables, shards, cuts.get(line)) for line, some in sorted(bands.items())]

    # ---- families

    def founded(self, tables: Mapping[str, Latest]) -> Mapping[FamilyShape, Family]:
        """All families that have all rows."""
        self._found(tables)
        return {shape: family for (shape, spread), family in self._families.items() if not spread}

    def _found(self, tables: Mapping[str, Latest]) -> None:
        """Bring queries that were restored into families."""
        restored, self._restored = self._restored, {}
        for number in restored:
            self._join(number, tables)

    def _join(self, number: int, tables: Mapping[str, Latest]) -> None:
        shape, ranges = lowered(self._queries[number])
        if ranges is None:
            return
        if shape.band and np.isfinite(ranges.band).all():
            line, (low, high) = line_of(shape), ranges.band
            least, most = self._widest.get(line, ranges.band)
            self._widest[line] = (min(least, low), max(most, high))
        part = self._part
        cuts = None if part is None else part.cuts(shape, ranges.band)
        if cuts is None and number in self._guests:
            return
        which = (shape, cuts is not None)
        family = self._families.get(which)
        if family is None:
            own = None if part is None or cuts is None else (part.shard, cuts)
            family = Family(shape, tables[shape.left].schema, tables[shape.right].schema, own)
            self._families[which] = family
        family.add(number, ranges)
        self._shapes[number] = which

    # ---- output

    def _published_rows(
        self,
        changes: Mapping[str, Changes],
        left: Latest,
        right: Latest,
        parts: Sequence[tuple[Pairs, Pairs]],
        position: Position,
    ) -> Rows | None:
        old, new = (_all(parts, which) for which in (0, 1))
        numbers = _distinct(np.concatenate((old.queries, new.queries)))
        pairs = _distinct(np.concatenate((old.pairs, new.pairs)))
        if not len(pairs):
            return None
        were, are = (
            _distinct(np.searchsorted(numbers, one.queries) * len(pairs) + np.searchsorted(pairs, one.pairs))
            for one in (old, new)
        )
        stays: Flags = np.isin(are, were, assume_unique=True)
        unsure = stays
        change = None if self._part is None else changes.get(left.schema.name)
        if change is not None:
            # A left row that is another one now may have come from another shard, and its pairs with it.
            moved: Flags = np.isin(slots_of(pairs)[0], change.slots[change.had & change.has])
            unsure = stays | moved[are % len(pairs)]
        which, at = np.divmod(are[unsure], len(pairs))
        different = ~unsure
        different[unsure] = self._differ(changes, left, right, numbers, which, pairs[at])
        shown: Flags = ~stays | different
        entered = are[shown]
        gone = were[~np.isin(were, are, assume_unique=True)]
        facts = np.concatenate((entered, gone))
        if not len(facts):
            return None
        kinds = np.full(len(facts), RowKind.DELETE, np.int8)
        kinds[: len(entered)] = np.where(different[shown], RowKind.UPSERT, STAYS)
        order = np.argsort(facts)
        facts, kinds = facts[order], kinds[order]
        queries = numbers[facts // len(pairs)]
        needed, places = np.unique(facts % len(pairs), return_inverse=True)
        self._changed.update(dict.fromkeys(_distinct(queries).tolist(), position))
        first, second = slots_of(pairs[needed])
        batch = side_by_side(left.take(first)[1], right.take(second)[1], left, right)
        name = joined_name(left.schema.name, right.schema.name)
        return Rows(name, queries, places, kinds, batch, pairs[needed])

    def _differ(
        self,
        changes: Mapping[str, Changes],
        left: Latest,
        right: Latest,
        numbers: Integers,
        places: Integers,
        pairs: Integers,
    ) -> Flags:
        """Flag the results that stay and show a column that changed."""
        result: Flags = np.zeros(len(pairs), np.bool_)
        if not len(pairs):
            return result
        joined = joined_schema(left.schema, right.schema)
        # Of very many joins most show the same columns.
        columns = [self._queries[number].columns for number in numbers.tolist()]
        kinds = {names: nth for nth, names in enumerate(dict.fromkeys(columns))}
        showing = np.array([kinds[names] for names in columns])[places]
        shown = [[joined.index(name) for name in names] for names in kinds]
        offset = 0
        for latest, slots in zip((left, right), slots_of(pairs), strict=True):
            width = len(latest.schema.columns)
            change = changes.get(latest.schema.name)
            if change is not None:
                own = [[at - offset for at in one if offset <= at < offset + width] for one in shown]
                words = words_for(range(width))
                masks: Words = np.stack([bits_of(one, words) for one in own])
                before, after = Sheet(change.before, change.had), Sheet(change.after, change.has)
                bits = differing(latest.schema, before, after, words)
                at = np.minimum(np.searchsorted(change.slots, slots), len(change) - 1)
                hit = change.slots[at] == slots
                result |= hit & (bits[at] & masks[showing]).any(axis=1)
            offset += width
        return result


def _why(steps: int, labour: Labour) -> str:
    own = f", {steps:,} or more" if steps else ""
    return (
        f"for joins of one shape at most {labour.most:,} pairs of rows are looked at in one step, and this is one of "
        f"those that need most{own}; ask for a narrower range of differences, or select on the compared "
        f"columns on both sides"
    )


def _without(found: Pairs, crowded: Sequence[int]) -> Pairs:
    others: Flags = ~np.isin(found.queries, crowded)
    return Pairs(found.queries[others], found.pairs[others])


def _distinct(numbers: Integers) -> Integers:
    """The numbers there are, in rising order.

    `np.unique` hashes, and pairs of slots, many of which differ in the upper half alone, collide: four times as slow.
    """
    ordered = np.sort(numbers)
    first: Flags = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def _all(parts: Sequence[tuple[Pairs, Pairs]], which: int) -> Pairs:
    chosen = [part[which] for part in parts]
    return Pairs(np.concatenate([one.queries for one in chosen]), np.concatenate([one.pairs for one in chosen]))


def _percent(share: float) -> float:
    return round(100 * share, 4)


def joins_of(operators: Iterable[Operator]) -> StandingJoins:
    """The operator of joins among those of a host."""
    return next(one for one in operators if isinstance(one, StandingJoins))
