"""Binder of selections: SELECT columns FROM table WHERE condition → a selection; anything more is refused."""

from sqlglot import exp

from slackwater.core.query import Selection
from slackwater.core.schema import TableSchema
from slackwater.sql.catalog import Catalog
from slackwater.sql.condition import Names, where
from slackwater.sql.place import Text
from slackwater.sql.tables import from_table, refuse_other_parts


def selection(select: exp.Select, catalog: Catalog, text: Text) -> Selection:
    """A selection of rows of one table; what is more than that is refused."""
    refuse_other_parts(select, {"expressions", "from_", "where"}, text)
    table, names = from_table(select, catalog, text)
    return Selection(table.name, _columns(select, table, names, text), where(select, names))


def _columns(select: exp.Select, table: TableSchema, names: Names, text: Text) -> tuple[str, ...]:
    columns: list[str] = []
    for node in select.expressions:
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(star, exp.Star):
            if any(star.args.values()):
                text.refuse("* takes no EXCEPT or REPLACE in a standing query; write the columns you want", node)
            if isinstance(node, exp.Column):
                names.check_qualifier(node)
            columns += [column.name for column in table.columns]
            continue
        column = node.this if isinstance(node, exp.Alias) else node
        if not isinstance(column, exp.Column):
            text.refuse("a selection shows columns as they are; compute from them in your program", node)
        name = names.column(column).name
        if isinstance(node, exp.Alias) and node.alias.lower() != name.lower():
            text.refuse(f"a selection keeps the names of its columns; leave AS {node.alias} out", node)
        columns.append(name)
    if len(set(columns)) != len(columns):
        text.refuse("a column is asked for twice; once is enough", select.expressions[-1])
    return tuple(columns)
