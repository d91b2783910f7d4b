"""FROM clause of a standing query: its one table; other parts of SELECT are refused with advice."""

from collections.abc import Collection

from sqlglot import exp

from slackwater.core.errors import SchemaError
from slackwater.core.schema import TableSchema, check_name
from slackwater.core.statement import Catalogued
from slackwater.sql.catalog import Catalog, unknown
from slackwater.sql.condition import Names
from slackwater.sql.place import Text, offset_of

INSTEAD: dict[str, str] = {
    "with_": "WITH is not possible in a standing query; write the table itself after FROM",
    "distinct": "DISTINCT is not possible in a standing query; the rows of a table differ by their keys already",
    "group": "GROUP BY is not possible in a standing query; subscribe once for each group, with WHERE",
    "having": "HAVING is not possible in a standing query; compare the value in your program",
    "order": "ORDER BY is not possible in a standing query, whose answer is a set; sort in your program",
    "limit": "LIMIT is not possible in a standing query; narrow it with WHERE",
    "offset": "OFFSET is not possible in a standing query; narrow it with WHERE",
    "qualify": "QUALIFY is not possible in a standing query; compare the value in your program",
    "windows": "WINDOW is not possible in a standing query; compute it in your program",
    "joins": "a selection reads one table; subscribe to each table by itself",
    "into": "INTO is not possible; a subscription sends its answer to you",
}
"""Advice for unsupported parts of SELECT, by sqlglot's names of them."""


def refuse_other_parts(select: exp.Select, allowed: Collection[str], text: Text) -> None:
    """Refuse the parts of a SELECT that are not among these."""
    for part, value in select.args.items():
        if value and part not in allowed:
            nodes = [node for node in (value if isinstance(value, list) else [value]) if isinstance(node, exp.Expr)]
            place = next((node for node in nodes if offset_of(node) is not None), select)
            text.refuse(INSTEAD.get(part, f"{part.strip('_').upper()} is not possible in a standing query"), place)


def from_table(select: exp.Select, catalog: Catalog, text: Text) -> tuple[TableSchema, Names]:
    """The table that a standing query reads, and how its columns may be named."""
    clause = select.args.get("from_")
    if clause is None:
        text.refuse("a standing query reads a table; write FROM and its name", select)
    return named_table(clause.this, catalog, text)


def named_table(source: exp.Expr, catalog: Catalog, text: Text) -> tuple[TableSchema, Names]:
    """A table as it stands after FROM or JOIN, and how its columns may be named."""
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        text.refuse("a standing query reads a table; write its name after FROM, not a query or a function", source)
    extra = [part for part, value in source.args.items() if value and part not in ("this", "alias", "db", "catalog")]
    alias = source.args.get("alias")
    if extra or (alias is not None and alias.args.get("columns")):
        text.refuse("a standing query reads a whole table; write only its name, and AS and another name", source)
    table = table_of(source, catalog, text)
    # As in SQL, a table that is given another name goes only by that one.
    return table, Names(table, [source.alias or table.name], text)


def table_of(source: exp.Table, catalog: Catalog, text: Text) -> TableSchema:
    """Resolve a table; an error at its place where there is none."""
    if source.args.get("db") or source.args.get("catalog"):
        text.fail("tables are written by their name alone", source)
    table = catalog.table(source.name)
    if table is None:
        text.fail(unknown("table", source.name, catalog.names(Catalogued.TABLE)), source.this)
    return table


def check_name_at(name: exp.Expr, what: str, text: Text) -> None:
    """Refuse a name that cannot be given, at its place."""
    try:
        check_name(name.name, what)
    except SchemaError as error:
        text.fail(str(error), name)
