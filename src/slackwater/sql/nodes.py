"""Syntax nodes: the statements and clauses that standard SQL does not have."""

from typing import ClassVar

from sqlglot import exp


class Subscribe(exp.Expression):
    """`SUBSCRIBE [alias AS] this within fidelity every memory`; `this` is the query."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "alias": False,
        "within": False,
        "fidelity": False,
        "every": False,
        "memory": False,
    }


class Within(exp.Expression):
    """`WITHIN number`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class FidelityClause(exp.Expression):
    """`FIDELITY number [%]`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "percent": False}


class Every(exp.Expression):
    """`EVERY number unit`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": True}


class Memory(exp.Expression):
    """`MEMORY number ROWS`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class FreshIn(exp.Property):
    """`FRESH IN number unit`, at the end of a materialised view."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": True}


class EventTime(exp.Property):
    """`EVENT TIME column`, at the end of a table."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class CreateSource(exp.Expression):
    """`CREATE SOURCE this FOR table FROM kind address WITH (expressions)`; `kind` is text."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "table": True,
        "kind": True,
        "address": True,
        "expressions": False,
    }


class Option(exp.Expression):
    """`this = expression`, one setting of a source."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class ShowNamed(exp.Expression):
    """`SHOW TABLES`, `SHOW SOURCES`, `SHOW SUBSCRIPTIONS`; `kind` is the singular as text."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True}


class DropNamed(exp.Expression):
    """`DROP kind [IF EXISTS] this`; `kind` is text."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "exists": False}


class ExplainOf(exp.Expression):
    """`EXPLAIN this`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}
