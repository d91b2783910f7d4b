"""Explain tree: named parts with details, as text for people and as JSON for programs.

A part has a name, details and parts of its own. Binding fills in what the statement says; planning and operators
add parts of theirs (who keeps which share of a bound, how many messages an hour are expected), which is why a tree can
be grown: `tree.with_parts(…)`.
"""

import json
from dataclasses import dataclass, replace
from typing import TypeAlias

from slackwater.core.bound import Bound
from slackwater.core.region import Region

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


def bound_details(bound: Bound) -> list[Detail]:
    """Details of an error bound."""
    if bound.within == 0 and bound.always:
        return [Detail("bound", "exact")]
    return [Detail("within", bound.within), Detail("fidelity", round(bound.fidelity * 100, 10), "%")]


def rows_tree(table: str, region: Region) -> ExplainTree:
    """The rows of a table that lie in a region."""
    boxes = tuple(str(box) for box in region.boxes[:10])
    more = (f"and {len(region.boxes) - 10} more",) if len(region.boxes) > 10 else ()
    details = (Detail("table", table), Detail("where", (*boxes, *more) or ("nothing",)))
    return ExplainTree("rows", (*details, Detail("boxes", len(region.boxes))))
