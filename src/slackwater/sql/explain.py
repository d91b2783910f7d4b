"""EXPLAIN: what a statement was understood to be, as a tree of named parts.

A part has a name, details and parts of its own. Binding fills in what the statement says; planning and operators
will add parts of theirs (who keeps which share of a bound, how many messages an hour are expected), which is why a
tree can be grown: `tree.with_parts(…)`.
"""

import json
from dataclasses import dataclass, replace
from typing import TypeAlias

from slackwater.core.bound import Bound
from slackwater.core.hosts import HostKind
from slackwater.core.joined import called
from slackwater.core.plan import Plan
from slackwater.core.query import Aggregate, Join, OneShot, Selection, StandingQuery
from slackwater.core.region import Region
from slackwater.core.statement import (
    CreateSource,
    CreateTable,
    Drop,
    Explain,
    Select,
    Show,
    Statement,
    Subscribe,
)
from slackwater.sql.durations import write_duration

DetailValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Detail:
    """One fact about a part. A number may have a unit."""

    name: str
    value: DetailValue
    unit: str | None = None

    def text(self) -> str:
        """The fact on one line."""
        match self.value:
            case bool():
                shown = "yes" if self.value else "no"
            case None:
                shown = "none"
            case tuple():
                shown = ", ".join(self.value)
            case float():
                shown = f"{self.value:.10g}"
            case _:
                shown = str(self.value)
        return f"{self.name}: {shown}{' ' + self.unit if self.unit else ''}"

    def plain(self) -> Json:
        """The value for JSON; a number with a unit says it."""
        value: Json = list(self.value) if isinstance(self.value, tuple) else self.value
        return {"value": value, "unit": self.unit} if self.unit else value


@dataclass(frozen=True, slots=True)
class Grid:
    """Figures in one unit, a row for each bound and one of them for each fidelity; a part of an explanation.

    `chosen` is the place (row, column) of the figure that belongs to the statement itself.

    >>> print("\\n".join(Grid("pulls/hour", (1.0,), (0.9, 0.95), ((7.0, 12.5),), (0, 1)).lines()))
    pulls/hour  90 %    95 %
    WITHIN 1       7  > 12.5
    """

    unit: str
    within: tuple[float, ...]
    fidelity: tuple[float, ...]
    figures: tuple[tuple[float, ...], ...]
    chosen: tuple[int, int] | None = None

    def lines(self) -> list[str]:
        """The table for people."""
        cells = [[self.unit, *(f"{100 * fidelity:.6g} %" for fidelity in self.fidelity)]]
        for place, (within, figures) in enumerate(zip(self.within, self.figures, strict=True)):
            marks = ["> " if self.chosen == (place, column) else "" for column in range(len(figures))]
            told = [f"{mark}{_figure(figure)}" for mark, figure in zip(marks, figures, strict=True)]
            cells.append([f"WITHIN {within:.6g}", *told])
        widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
        return [
            "  ".join(
                cell.rjust(width) if place else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in cells
        ]

    def plain(self) -> Json:
        """The table for JSON."""
        figures: list[Json] = [list(row) for row in self.figures]
        return {
            "unit": self.unit,
            "within": list(self.within),
            "fidelity": list(self.fidelity),
            "figures": figures,
        }


@dataclass(frozen=True, slots=True)
class ExplainTree:
    """A named part with its details and its own parts, and perhaps a table.

    >>> print(ExplainTree("sum", (Detail("within", 2400.0),), (ExplainTree("table quotes"),)).text())
    sum
      within: 2400
      └ table quotes
    """

    name: str
    details: tuple[Detail, ...] = ()
    parts: tuple["ExplainTree", ...] = ()
    grid: Grid | None = None

    def with_parts(self, *parts: "ExplainTree") -> "ExplainTree":
        """The same with more parts at the end."""
        return replace(self, parts=(*self.parts, *parts))

    def text(self) -> str:
        """The tree for people, a line for each fact."""
        return "\n".join(self._lines())

    def json(self) -> str:
        """The tree for programs."""
        return json.dumps(self.plain(), ensure_ascii=False)

    def plain(self) -> dict[str, Json]:
        """The tree as values that JSON knows."""
        return {
            "name": self.name,
            "details": {detail.name: detail.plain() for detail in self.details},
            "parts": [part.plain() for part in self.parts],
            **({} if self.grid is None else {"table": self.grid.plain()}),
        }

    def _lines(self) -> list[str]:
        lines = [self.name, *(f"  {detail.text()}" for detail in self.details)]
        if self.grid is not None:
            lines += [f"  {line}" for line in self.grid.lines()]
        for part in self.parts:
            first, *rest = part._lines()
            lines += [f"  └ {first}", *(f"    {line}" for line in rest)]
        return lines


def _figure(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def explain(statement: Statement) -> ExplainTree:
    """Say what a bound statement means.

    >>> from slackwater.core import Catalogued
    >>> explain(Show(Catalogued.TABLE)).text()
    'show tables'
    """
    match statement:
        case Explain(inner):
            return explain(inner)
        case Subscribe(query, name):
            called = (Detail("name", str(name)),) if name is not None else ()
            return ExplainTree("subscription", called, (_query(query),))
        case Select(query):
            return _one_shot(query)
        case CreateTable():
            return _table(statement)
        case CreateSource():
            return _source(statement)
        case Show(what):
            return ExplainTree(f"show {what.value.lower()}s")
        case Drop(what, name, if_exists):
            return ExplainTree(f"drop {what.value.lower()}", (Detail("name", name), Detail("if exists", if_exists)))


def hosted(host: HostKind) -> ExplainTree:
    """Who keeps a query.

    >>> hosted(HostKind.SPARK).text()
    "host spark\\n  operators: on Spark's executors, by micro-batches"
    """
    where = {
        HostKind.NODE: "in the server, as the log grows",
        HostKind.SPARK: "on Spark's executors, by micro-batches",
        HostKind.NETWORK: "at aggregators, in parts that the client adds up",
    }
    return ExplainTree(f"host {host.value}", (Detail("operators", where[host]),))


def explain_plan(plan: Plan) -> ExplainTree:
    """The parts of a plan: a node, its share of the bound and what it is expected to send."""
    parts = []
    for part in plan.parts:
        details = [Detail("share of the bound", part.query.bound.within)]
        if part.messages_per_hour is not None:
            details.append(Detail("expected", part.messages_per_hour, "messages/hour"))
        parts.append(ExplainTree(f"node {part.node}", tuple(details), (_query(part.query),)))
    details = [Detail("epoch", plan.epoch), Detail("from position", int(plan.takes_effect))]
    return ExplainTree("plan", tuple(details), tuple(parts))


def _query(query: StandingQuery) -> ExplainTree:
    match query:
        case Selection():
            return _selection(query)
        case Aggregate():
            return _aggregate(query)
        case Join():
            return _join(query)


def _selection(query: Selection) -> ExplainTree:
    return ExplainTree("selection", (Detail("columns", query.columns),), (_rows(query),))


def _join(query: Join) -> ExplainTree:
    names = called(query.left, query.right)
    left, right = f"{names[0]}.{query.left_column}", f"{names[1]}.{query.right_column}"
    on = f"{left} = {right}" if query.band is None else f"{right} - {left} in {query.band}"
    return ExplainTree(
        "select-join" if query.band is None else "band join",
        (Detail("columns", query.columns), Detail("on", on)),
        (_rows_of(names[0], query.left_region), _rows_of(names[1], query.right_region)),
    )


def _aggregate(query: Aggregate) -> ExplainTree:
    details = [Detail("function", query.function.value), Detail("column", query.column or "*")]
    if query.scale != 1.0:
        details.append(Detail("scale", query.scale))
    if query.weights is not None:
        details.append(Detail("weighted items", len(query.weights)))
    details += _bound(query.bound)
    return ExplainTree("aggregate", tuple(details), (_rows(query),))


def _bound(bound: Bound) -> list[Detail]:
    if bound.within == 0 and bound.always:
        return [Detail("bound", "exact")]
    return [Detail("within", bound.within), Detail("fidelity", round(bound.fidelity * 100, 10), "%")]


def _rows(query: Selection | Aggregate) -> ExplainTree:
    return _rows_of(query.table, query.region)


def _rows_of(table: str, region: Region) -> ExplainTree:
    boxes = tuple(str(box) for box in region.boxes[:10])
    more = (f"and {len(region.boxes) - 10} more",) if len(region.boxes) > 10 else ()
    details = (Detail("table", table), Detail("where", (*boxes, *more) or ("nothing",)))
    return ExplainTree("rows", (*details, Detail("boxes", len(region.boxes))))


def _one_shot(query: OneShot) -> ExplainTree:
    details = (Detail("tables", query.tables), Detail("text", query.text))
    parts = (_selection(query.selection),) if query.selection is not None else ()
    return ExplainTree("one-shot query", details, parts)


def _table(statement: CreateTable) -> ExplainTree:
    schema = statement.schema
    columns = tuple(
        f"{column.name} {column.type.value}{'' if column.nullable else ' NOT NULL'}" for column in schema.columns
    )
    details = (
        Detail("name", schema.name),
        Detail("columns", columns),
        Detail("key", schema.key),
        Detail("event time", schema.event_time),
    )
    return ExplainTree("create table", details)


def _source(statement: CreateSource) -> ExplainTree:
    details = [
        Detail("name", statement.name),
        Detail("table", statement.table),
        Detail("kind", statement.kind.value),
        Detail("address", statement.address),
    ]
    if statement.every is not None:
        details.append(Detail("every", write_duration(statement.every)))
    settings = tuple(Detail(option.name, option.value) for option in statement.options)
    parts = (ExplainTree("settings", settings),) if settings else ()
    return ExplainTree("create source", tuple(details), parts)
