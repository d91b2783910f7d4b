"""Result schema of a join: one row for each pair, keyed by both keys together.

Columns are called `table.column`, always: a name must not change because a table gets another column. Of a table that
is joined with itself the second one is called `table_2`, whatever a statement called it: all who join it see the same
table. Names of tables hold no control characters, so two of them with one in between name a pair of tables and nothing
else.
"""

from dataclasses import dataclass

from slackwater.core.errors import SchemaError
from slackwater.core.schema import Column, TableSchema

_BETWEEN = "\x1f"


@dataclass(frozen=True, slots=True)
class _OfTable(Column):
    """A column named `table.column`; both names were checked at their definition."""

    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class JoinedSchema(TableSchema):
    """Schema of two tables side by side; the limits on one table's columns do not apply."""

    def __post_init__(self) -> None:
        pass


def joined_name(left: str, right: str) -> str:
    """Name of the answer schema of joins of two tables.

    >>> pair_named(joined_name("unit", "target"))
    ('unit', 'target')
    """
    return f"{left}{_BETWEEN}{right}"


def pair_named(name: str) -> tuple[str, str] | None:
    """The two tables of an answer schema's name; None for the name of a table."""
    left, between, right = name.partition(_BETWEEN)
    return (left, right) if between else None


def called(left: str, right: str) -> tuple[str, str]:
    """Prefixes of the column names of each of two tables.

    >>> called("unit", "target"), called("unit", "unit")
    (('unit', 'target'), ('unit', 'unit_2'))
    """
    return (left, right) if left != right else (left, f"{right}_2")


def column_of(table: str, column: str) -> str:
    """Name of a column of one of the two tables in the answer."""
    return f"{table}.{column}"


def joined_schema(left: TableSchema, right: TableSchema) -> JoinedSchema:
    """The table that a join of these two is cut from."""
    named = tuple(zip(called(left.name, right.name), (left, right), strict=True))
    columns = tuple(
        _OfTable(column_of(name, column.name), column.type, column.nullable)
        for name, table in named
        for column in table.columns
    )
    key = tuple(column_of(name, part) for name, table in named for part in table.key)
    return JoinedSchema(joined_name(left.name, right.name), columns, key)


def check_pair(left: str, right: str) -> None:
    """Refuse tables whose columns could not be told apart."""
    first, second = (name.lower() for name in called(left, right))
    if first.startswith(second + ".") or second.startswith(first + "."):
        raise SchemaError(f"the columns of {left} and {right} could not be told apart, because of their names")
