"""Look-up by key: `SELECT columns FROM t WHERE key = …`, answered from the latest state without a database.

The answer has the columns, the types and the order of rows that the evaluator gives it. Anything beyond the simple form
is left to the evaluator: other conditions, expressions, an order, a limit, and keys of types whose literals are
converted before they are compared.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sqlglot import exp

from slackwater.core.arrow import ARROW_TYPES
from slackwater.core.region import EVERYTHING, Region
from slackwater.core.schema import TableSchema
from slackwater.core.types import DataType, Key
from slackwater.processing.latest import LatestTable
from slackwater.processing.regions import inside

MOST_KEYS = 1_000
"""Keys of one IN."""
_SIMPLE = frozenset({"expressions", "from_", "where"})
_DIGITS = 18
"""Whole numbers of so many digits are a BIGINT, whatever they are."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """The rows of some keys. `columns` pairs the names of the answer with those of the table."""

    table: str
    keys: tuple[Key, ...]
    columns: tuple[tuple[str, str], ...]


def lookup_of(tree: exp.Expr, schema: TableSchema) -> Lookup | None:
    """The look-up that a query on this table is, by its tree in normal form; None where it is anything else."""
    if not isinstance(tree, exp.Select) or any(value for name, value in tree.args.items() if name not in _SIMPLE):
        return None
    source = tree.args["from_"].this if tree.args.get("from_") else None
    if not isinstance(source, exp.Table) or any(
        value for name, value in source.args.items() if name not in ("this", "alias")
    ):
        return None
    columns = _columns(tree.expressions, schema)
    where = tree.args.get("where")
    keys = None if where is None else _keys(where.this, schema)
    return None if columns is None or keys is None else Lookup(schema.name, keys, columns)


def _columns(shown: Iterable[exp.Expr], schema: TableSchema) -> tuple[tuple[str, str], ...] | None:
    found = []
    for one in shown:
        if not isinstance(one, exp.Alias) or not _is_column(one.this, schema):
            return None
        found.append((one.alias, one.this.name))
    names = {name.lower() for name, _ in found}
    return tuple(found) if found and len(names) == len(found) else None


def _keys(condition: exp.Expr, schema: TableSchema) -> tuple[Key, ...] | None:
    if isinstance(condition, exp.In) and len(schema.key) == 1:
        listed = condition.expressions
        if not _is_column(condition.this, schema) or condition.this.name != schema.key[0]:
            return None
        if len(listed) > MOST_KEYS or any(value for name, value in condition.args.items() if name not in _IN):
            return None
        values = [_value(one, schema, schema.key[0]) for one in listed]
        return None if not values or None in values else tuple((value,) for value in values if value is not None)
    parts: dict[str, int | str] = {}
    for term in _terms(condition):
        if not isinstance(term, exp.EQ) or not _is_column(term.this, schema):
            return None
        name = term.this.name
        value = _value(term.expression, schema, name)
        if value is None or name in parts:
            return None
        parts[name] = value
    return (tuple(parts[name] for name in schema.key),) if parts.keys() == set(schema.key) else None


_IN = frozenset({"this", "expressions"})


def _terms(condition: exp.Expr) -> Iterator[exp.Expr]:
    while isinstance(condition, exp.And):
        yield condition.expression
        condition = condition.this
    yield condition


def _value(literal: exp.Expr, schema: TableSchema, column: str) -> int | str | None:
    """A literal as a part of a key; None where comparing it takes a conversion."""
    sign = 1
    if isinstance(literal, exp.Neg):
        sign, literal = -1, literal.this
    if not isinstance(literal, exp.Literal):
        return None
    kind, text = schema.column(column).type, literal.name
    if kind is DataType.TEXT and literal.is_string and sign == 1:
        return text
    if kind is DataType.BIGINT and not literal.is_string and text.isdecimal() and text.isascii():
        # Zeros before it make it no other number, but a plan by shape knows only literals as they are written.
        return sign * int(text) if len(text) <= _DIGITS and str(int(text)) == text else None
    return None


def _is_column(node: exp.Expr | None, schema: TableSchema) -> bool:
    return isinstance(node, exp.Column) and any(node.name == column.name for column in schema.columns)


def looked_up(lookup: Lookup, latest: LatestTable, rights: Region = EVERYTHING) -> pa.Table:
    """The answer, of those rows that may be seen."""
    slots = np.array(sorted({slot for key in lookup.keys if (slot := latest.find(key)) >= 0}), np.int64)
    present, rows = latest.take(slots)
    if rights != EVERYTHING:
        present = present & inside(rights, latest.schema, rows)
    if not present.all():
        rows = rows.filter(pa.array(present))
    fields = [pa.field(name, ARROW_TYPES[latest.schema.column(column).type]) for name, column in lookup.columns]
    return pa.Table.from_arrays([rows.column(column) for _, column in lookup.columns], schema=pa.schema(fields))
