"""The contract of `slackwater.processing.base`, point by point, for every operator there is.

Random histories: rows, late rows, deletions, added columns, and queries that come, go and are replaced, in batches cut
anywhere. After every step what was said is compared with recomputing from a dictionary of updates; a twin that was
restored from a snapshot goes along and must say the same bytes.
"""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import slackwater.processing
from slackwater.core import (
    Aggregate,
    AggregateFunction,
    Bound,
    Box,
    Column,
    DataType,
    Instant,
    Interval,
    Operation,
    Origin,
    Position,
    Region,
    Row,
    Selection,
    Side,
    StandingQuery,
    TableSchema,
    Update,
    Weight,
)
from slackwater.core.arrow import to_batch
from slackwater.processing.base import Answer, Notifications, Operator, RowKind, TableOperator
from slackwater.processing.bounded import BoundedAggregates
from slackwater.processing.columns import python_rows
from slackwater.processing.host import Host
from slackwater.processing.joined import StandingJoins
from slackwater.processing.one_table import OneTable
from slackwater.processing.selection import Selections
from tests.support.plain_operators import PlainAggregates, PlainSelections, aggregated, selected
from tests.support.query_strategies import EVEN, ITEMS, PAIRS, WILD, aggregates, batches_of, selections

ADDED = Column("later", DataType.DOUBLE)

WORLDS: dict[type, Callable[[TableSchema], st.SearchStrategy[StandingQuery]]] = {
    PlainAggregates: aggregates,
    BoundedAggregates: aggregates,
    PlainSelections: selections,
    Selections: selections,
}
"""Which queries an operator is tried with."""
TWINS = [(BoundedAggregates, PlainAggregates), (Selections, PlainSelections)]


def test_every_operator_is_tried() -> None:
    found = set()
    for module in pkgutil.walk_packages(slackwater.processing.__path__, "slackwater.processing."):
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if hasattr(member, "accepts") and hasattr(member, "apply") and not inspect.isabstract(member):
                found.add(member)
    # Joins read two tables; their histories are in tests/processing/joined/test_operator.py.
    assert found == {*WORLDS, StandingJoins, OneTable} - {PlainAggregates, PlainSelections}


def as_bytes(said: Notifications) -> tuple[Any, ...]:
    """All that a step said, to be compared bit by bit."""
    values = said.values
    return (
        said.position,
        None if values is None else (values.queries.tobytes(), values.values.tobytes(), values.there.tobytes()),
        [
            (part.table, part.queries.tobytes(), part.places.tobytes(), part.kinds.tobytes(), python_rows(part.rows))
            for part in said.rows
        ],
    )


class Subscriber:
    """Applies what is said, and compares it with the truth."""

    def __init__(self) -> None:
        self.tables = {ITEMS.name: ITEMS, PAIRS.name: PAIRS}
        self.last: dict[str, dict[Any, Update]] = {name: {} for name in self.tables}
        self.queries: dict[int, StandingQuery] = {}
        self.values: dict[int, float | None] = {}
        self.rows: dict[int, dict[Any, Row]] = {}
        self.changed: dict[int, int] = {}

    def fold(self, updates: Sequence[Update]) -> None:
        for update in updates:
            last = self.last[update.table]
            key = self.tables[update.table].key_of(update.row)
            if key not in last or update.rank >= last[key].rank:
                last[key] = update

    def latest(self, table: str) -> list[Row]:
        width = len(self.tables[table].columns)
        rows = [one.row for one in self.last[table].values() if one.operation is Operation.UPSERT]
        return [row + (None,) * (width - len(row)) for row in rows]

    def register(self, number: int, query: StandingQuery, answer: Answer) -> None:
        assert answer.query == number
        self.queries[number] = query
        self.changed[number] = answer.changed
        table = self.tables[query.table]
        if isinstance(query, Aggregate):
            assert answer.rows is None
            self.values[number] = answer.value
        else:
            assert isinstance(query, Selection)
            assert answer.value is None
            assert answer.rows is not None
            self.rows[number] = {table.key_of(row): self.shown(query, row) for row in python_rows(answer.rows)}
        self.check(number)

    def unregister(self, number: int) -> None:
        for kept in (self.queries, self.values, self.rows, self.changed):
            kept.pop(number, None)

    def shown(self, query: Selection, row: Row) -> Row:
        return tuple(row[self.tables[query.table].index(name)] for name in query.columns)

    def hear(self, said: Notifications) -> None:
        """Apply what was said; nothing may be said in vain, and of nothing twice."""
        if said.values is not None:
            numbers = said.values.queries.tolist()
            assert numbers == sorted(set(numbers))
            for number, value, there in zip(
                numbers, said.values.values.tolist(), said.values.there.tolist(), strict=True
            ):
                query, before = self.queries[number], self.values[number]
                assert isinstance(query, Aggregate)
                now = value if there else None
                assert now != before
                if now is not None and before is not None:
                    assert abs(now - before) > query.bound.within
                self.values[number] = now
                self.changed[number] = said.position
        for part in said.rows:
            rows = python_rows(part.rows)
            facts = list(zip(part.queries.tolist(), part.places.tolist(), part.kinds.tolist(), strict=True))
            assert facts == sorted(facts)
            assert len({fact[:2] for fact in facts}) == len(facts)
            for number, place, kind in facts:
                query = self.queries[number]
                assert isinstance(query, Selection)
                key = self.tables[part.table].key_of(rows[place])
                if kind == RowKind.DELETE:
                    del self.rows[number][key]
                else:
                    row = self.shown(query, rows[place])
                    assert self.rows[number].get(key) != row
                    self.rows[number][key] = row
                self.changed[number] = said.position

    def check(self, number: int) -> None:
        query = self.queries[number]
        table, rows = self.tables[query.table], self.latest(query.table)
        if isinstance(query, Selection):
            chosen = selected(query.region, table, rows)
            assert self.rows[number] == {table.key_of(row): self.shown(query, row) for row in chosen}
            return
        assert isinstance(query, Aggregate)
        truth, value = aggregated(query, table, rows), self.values[number]
        assert (truth is None) == (value is None)
        if truth is not None and value is not None:
            assert abs(value - truth) <= query.bound.within + 1e-9 * self.magnitude(query)

    def magnitude(self, query: Aggregate) -> float:
        """The sum of the magnitudes of all parts: what rounding is measured by."""
        if query.column is None or not self.tables[query.table].column(query.column).type.numeric:
            return 0.0
        if query.function in (AggregateFunction.MIN, AggregateFunction.MAX):
            return 0.0
        table = self.tables[query.table]
        factors = None if query.weights is None else {weight.key: weight.factor for weight in query.weights}
        total = 0.0
        for row in selected(query.region, table, self.latest(query.table)):
            cell = row[table.index(query.column)]
            factor = 1.0 if factors is None else factors.get(table.key_of(row), 0.0)
            total += abs(query.scale * factor * float(cell or 0.0))
        return total


class Machine(RuleBasedStateMachine):
    """One operator in a host, its restored twin, and a subscriber who checks everything."""

    kind: type
    numbers: Sequence[float] = WILD

    @initialize()
    def begin(self) -> None:
        self.host = Host([self.kind()])
        self.twin: Host | None = None
        self.subscriber = Subscriber()
        for table in (ITEMS, PAIRS):
            self.host.define(table, self.position(1))

    def position(self, step: int) -> Position:
        return Position(self.host.position + step)

    def hosts(self) -> list[Host]:
        return [self.host] if self.twin is None else [self.twin, self.host]

    def said(self, steps: list[Notifications]) -> None:
        assert len({repr(as_bytes(said)) for said in steps}) == 1, "the restored twin says something else"
        self.subscriber.hear(steps[0])
        for number in self.subscriber.queries:
            self.subscriber.check(number)
            answer = self.host.answer(number)
            assert answer.changed == self.subscriber.changed[number]
            assert answer.value == self.subscriber.values.get(number)

    @rule(data=st.data(), which=st.sampled_from(["items", "items", "pairs"]))
    def apply(self, data: st.DataObject, which: str) -> None:
        table = self.subscriber.tables[which]
        updates = data.draw(batches_of(table, self.numbers))
        self.subscriber.fold(updates)
        batch, position = to_batch(table, updates), self.position(len(updates))
        self.said([host.apply(which, batch, position) for host in self.hosts()])

    @rule(data=st.data(), number=st.integers(0, 5), which=st.sampled_from(["items", "items", "pairs"]))
    def register(self, data: st.DataObject, number: int, which: str) -> None:
        query = data.draw(WORLDS[self.kind](self.subscriber.tables[which]))
        position = self.position(1)
        answers = [host.register(number, query, position) for host in self.hosts()]
        self.subscriber.unregister(number)
        self.subscriber.register(number, query, answers[-1])

    @rule(number=st.integers(0, 5))
    def unregister(self, number: int) -> None:
        position = self.position(1)
        for host in self.hosts():
            host.unregister(number, position)
        self.subscriber.unregister(number)

    @rule()
    def advance(self) -> None:
        position = self.position(1)
        self.said([host.advance(Instant(99), position) for host in self.hosts()])

    @rule()
    def restore(self) -> None:
        state = self.host.snapshot()
        if self.twin is not None:
            assert self.twin.snapshot() == state
        self.twin = Host([self.kind()])
        self.twin.restore(state)
        assert self.twin.snapshot() == state
        # The restored one is looked at from now on, and the first must keep up with it.
        self.host, self.twin = self.twin, self.host

    @rule()
    def widen(self) -> None:
        if not self.subscriber.tables["items"].has(ADDED.name):
            wider = ITEMS.with_column(ADDED)
            self.subscriber.tables["items"] = wider
            position = self.position(1)
            for host in self.hosts():
                host.define(wider, position)


def machine_of(operator: type, with_numbers: Sequence[float]) -> type[Machine]:
    return type(f"{operator.__name__}Machine", (Machine,), {"kind": operator, "numbers": with_numbers})


CALM = settings(
    deadline=None,
    max_examples=40,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize("operator", WORLDS)
def test_keeps_the_contract(operator: type) -> None:
    run_state_machine_as_test(machine_of(operator, WILD), settings=CALM)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("operator", [BoundedAggregates, Selections])
@pytest.mark.parametrize("with_numbers", [EVEN, WILD], ids=["even", "wild"])
def test_keeps_the_contract_on_many_histories(operator: type, with_numbers: Sequence[float]) -> None:
    many = settings(CALM, max_examples=2000, stateful_step_count=50)
    run_state_machine_as_test(machine_of(operator, with_numbers), settings=many)


@st.composite
def histories(draw: st.DrawFn, queries: Callable[[TableSchema], st.SearchStrategy[StandingQuery]]) -> list[Any]:
    """Batches, and in between queries that come (number, query) or go (number, None)."""
    steps: list[Any] = [(number, draw(queries(ITEMS))) for number in range(draw(st.integers(1, 5)))]
    for _ in range(draw(st.integers(1, 8))):
        steps.append(draw(batches_of(ITEMS, EVEN)))
        if draw(st.booleans()):
            steps.append((draw(st.integers(0, 6)), draw(st.none() | queries(ITEMS))))
    return steps


def run(operator: Operator | TableOperator, steps: Sequence[Any]) -> tuple[Host, list[Any]]:
    host, told = Host([operator]), []
    host.define(ITEMS, Position(1))
    for step in steps:
        position = Position(host.position + 10)
        if isinstance(step, list):
            told.append(as_bytes(host.apply("items", to_batch(ITEMS, step), position)))
        elif step[1] is None:
            host.unregister(step[0], position)
        else:
            answer = host.register(step[0], step[1], position)
            told.append((answer.value, None if answer.rows is None else python_rows(answer.rows)))
    return host, told


@pytest.mark.parametrize(("fast", "plain"), TWINS)
@settings(CALM, max_examples=70)
@given(data=st.data())
def test_fast_and_plain_say_the_same_bits(fast: type, plain: type, data: st.DataObject) -> None:
    steps = data.draw(histories(WORLDS[fast]))
    assert run(fast(), steps)[1] == run(plain(), steps)[1]


@pytest.mark.parametrize("operator", WORLDS)
@settings(CALM, max_examples=25)
@given(data=st.data())
def test_other_cuts_end_in_the_same_truth(operator: type, data: st.DataObject) -> None:
    steps = data.draw(histories(WORLDS[operator]))
    finer = [piece for step in steps for piece in ([[one] for one in step] if isinstance(step, list) else [step])]
    (coarse_host, first), (fine_host, _) = run(operator(), steps), run(operator(), finer)
    assert run(operator(), steps)[1] == first
    for number, query in coarse_host.queries.items():
        coarse, fine = coarse_host.answer(number), fine_host.answer(number)
        if isinstance(query, Aggregate):
            assert (coarse.value is None) == (fine.value is None)
            if coarse.value is not None and fine.value is not None:
                assert abs(coarse.value - fine.value) <= 2 * query.bound.within
        else:
            assert coarse.rows is not None
            assert fine.rows is not None
            assert sorted(map(repr, python_rows(coarse.rows))) == sorted(map(repr, python_rows(fine.rows)))


ALL = tuple(Weight((f"k{n:03d}",), 1.0) for n in range(200))
BELOW = Region((Box.of(Side("value", Interval(None, 1e300))),))


@pytest.mark.parametrize("weights", [None, ALL, ALL[:7]], ids=["region", "listed", "few"])
@pytest.mark.parametrize("function", [AggregateFunction.SUM, AggregateFunction.AVG])
def test_sums_do_not_drift(weights: tuple[Weight, ...] | None, function: AggregateFunction) -> None:
    """Values of every size come and go; what is left is still right to nine digits."""
    random = np.random.default_rng(7)
    region = BELOW if weights is None else Region((Box(),))
    query = Aggregate("items", function, "value", Bound(0.0), region, weights)
    host = Host([BoundedAggregates()])
    host.define(ITEMS, Position(0))
    host.register(1, query, Position(1))
    truth: dict[str, float] = {}
    for step in range(300):
        keys = [f"k{n:03d}" for n in random.choice(200, 20, replace=False)]
        size = 10.0 ** (random.integers(-5, 250) if step % 3 == 0 else 0)
        made = {key: float(random.standard_normal() * size) for key in keys}
        truth.update(made)
        updates = [Update("items", (k, v, 0, None), Instant(step), Origin("s", step)) for k, v in made.items()]
        host.apply("items", to_batch(ITEMS, updates), Position(step + 2))
        counted = [v for k, v in truth.items() if weights is None or any(k == one.key[0] for one in weights)]
        value = host.answer(1).value
        if not counted:
            assert value is None
            continue
        share = len(counted) if function is AggregateFunction.AVG else 1
        assert value is not None
        error = abs(value - math.fsum(counted) / share)
        assert error <= 1e-9 * sum(map(abs, counted)) / share


@pytest.mark.parametrize("function", [AggregateFunction.SUM, AggregateFunction.AVG])
def test_a_sum_read_from_the_rows_is_as_exact_as_one_that_was_followed(function: AggregateFunction) -> None:
    """What rounding the rows' sum loses when a query is registered must not stay when the large rows leave."""
    host = Host([BoundedAggregates()])
    host.define(ITEMS, Position(0))
    made = {"a": -2.0, "b": -2.0, "c": 1e-9}
    rows = [Update("items", (k, v, 0, None), Instant(0), Origin("s", n)) for n, (k, v) in enumerate(made.items())]
    host.apply("items", to_batch(ITEMS, rows), Position(1))
    host.register(1, Aggregate("items", function, "value", Bound(0.0), BELOW), Position(2))
    gone = [
        Update("items", (k, None, None, None), Instant(1), Origin("s", 3 + n), Operation.DELETE)
        for n, k in enumerate("ab")
    ]
    host.apply("items", to_batch(ITEMS, gone), Position(3))
    assert host.answer(1).value == 1e-9
