"""Binder of definitions: CREATE TABLE and CREATE SOURCE → a schema, and the source of its updates."""

from sqlglot import exp

from slackwater.core.errors import SchemaError
from slackwater.core.schema import Column, TableSchema
from slackwater.core.statement import Catalogued, CreateSource, CreateTable, SourceKind, SourceOption
from slackwater.core.types import DataType
from slackwater.sql import nodes
from slackwater.sql.catalog import Catalog, spelled, unknown
from slackwater.sql.constants import fold
from slackwater.sql.durations import duration
from slackwater.sql.place import Text
from slackwater.sql.tables import check_name_at

TYPES: dict[exp.DType, DataType] = {
    exp.DType.BOOLEAN: DataType.BOOLEAN,
    exp.DType.BIGINT: DataType.BIGINT,
    exp.DType.INT: DataType.BIGINT,
    exp.DType.SMALLINT: DataType.BIGINT,
    exp.DType.TINYINT: DataType.BIGINT,
    exp.DType.DOUBLE: DataType.DOUBLE,
    exp.DType.FLOAT: DataType.DOUBLE,
    exp.DType.TEXT: DataType.TEXT,
    exp.DType.VARCHAR: DataType.TEXT,
    exp.DType.TIMESTAMP: DataType.TIMESTAMP,
    exp.DType.TIMESTAMPTZ: DataType.TIMESTAMP,
}
"""The types of SQL that are kept, and as which of the five."""

EVERY = "every"
MOST_OPTIONS = 100


def bind_table(tree: exp.Create, catalog: Catalog, text: Text) -> CreateTable:
    """Turn CREATE TABLE into a schema."""
    schema = tree.this
    if tree.args.get("expression") is not None:
        text.refuse("a table is not made from a query; write its columns, and feed it from a source", tree)
    if not isinstance(schema, exp.Schema) or not isinstance(schema.this, exp.Table):
        text.fail("a table needs columns; write CREATE TABLE name (column TYPE PRIMARY KEY, …)", tree)
    if any(value for part, value in tree.args.items() if part not in ("this", "kind", "exists", "properties")):
        text.refuse("CREATE TABLE takes a name, columns and EVENT TIME, nothing else", tree)
    if schema.this.args.get("db"):
        text.fail("tables are written by their name alone", schema)
    name = schema.this.this
    check_name_at(name, "table", text)
    if_not_exists = bool(tree.args.get("exists"))
    if catalog.table(name.name) is not None and not if_not_exists:
        text.fail(f"there is already a table {name.name}; write IF NOT EXISTS, or drop it first", name)
    columns, key = _columns(schema, text)
    event_time = _event_time(tree, columns, text)
    try:
        return CreateTable(TableSchema(name.name, columns, key, event_time), if_not_exists)
    except SchemaError as error:
        text.fail(str(error), name)


def _columns(schema: exp.Schema, text: Text) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    columns: list[Column] = []
    keys: list[exp.Expr] = []
    for part in schema.expressions:
        if isinstance(part, exp.PrimaryKey):
            if keys:
                text.fail("a table has one PRIMARY KEY", part)
            included = part.args.get("include")  # always there; empty where nothing is included
            if part.args.get("options") or (included is not None and any(included.args.values())):
                text.refuse("PRIMARY KEY takes the names of columns, nothing else", part)
            keys += part.expressions
        elif isinstance(part, exp.ColumnDef):
            column, is_key = _column(part, text)
            columns.append(column)
            if is_key:
                if keys:
                    text.fail("write a key of several columns once: PRIMARY KEY (a, b) after the columns", part)
                keys.append(part.this)
        else:
            text.refuse("between the brackets stand columns and PRIMARY KEY (…), nothing else", part)
    names = [column.name for column in columns]
    key = []
    for node in keys:
        if not isinstance(node, exp.Identifier | exp.Column):
            text.refuse("PRIMARY KEY takes the names of columns, nothing else", node)
        name = spelled(node.name, names)
        if name is None:
            text.fail(unknown("column", node.name, names), node)
        key.append(name)
    if not key:
        text.fail(
            "a table needs a PRIMARY KEY: it says which row an update replaces; "
            "write it after a column's type, or PRIMARY KEY (a, b) after the columns",
            schema,
        )
    return tuple(Column(c.name, c.type, c.nullable and c.name not in key) for c in columns), tuple(key)


def _column(node: exp.ColumnDef, text: Text) -> tuple[Column, bool]:
    check_name_at(node.this, "column", text)
    written = node.args.get("kind")
    if written is None:
        text.fail(f"column {node.name} needs a type: {', '.join(kind.value for kind in DataType)}", node)
    kind = TYPES.get(written.this) if isinstance(written, exp.DataType) else None
    if kind is None or written.args.get("nested") or written.expressions:
        kinds = ", ".join(each.value for each in DataType)
        text.refuse(f"there is no type {written.sql()[:60]} for column {node.name}; use one of {kinds}", node)
    nullable, key = True, False
    if any(value for part, value in node.args.items() if part not in ("this", "kind", "constraints")):
        text.refuse(f"column {node.name} takes NOT NULL and PRIMARY KEY after its type, nothing else", node)
    for constraint in node.args.get("constraints") or ():
        match constraint.args.get("kind"):
            case exp.NotNullColumnConstraint():
                nullable = bool(constraint.kind.args.get("allow_null"))
            case exp.PrimaryKeyColumnConstraint() if not any(constraint.kind.args.values()):
                key = True
            case _:
                text.refuse(f"column {node.name} takes NOT NULL and PRIMARY KEY after its type, nothing else", node)
    return Column(node.name, kind, nullable), key


def _event_time(tree: exp.Create, columns: tuple[Column, ...], text: Text) -> str | None:
    properties = tree.args.get("properties")
    given = properties.expressions if properties is not None else []
    for other in given[1:]:
        text.fail("a table has one EVENT TIME", other)
    for each in given:
        names = [column.name for column in columns]
        name = spelled(each.name, names)
        if name is None:
            text.fail(unknown("column", each.name, names), each.this)
        return name
    return None


def bind_source(tree: nodes.CreateSource, catalog: Catalog, text: Text) -> CreateSource:
    """Turn CREATE SOURCE into where to read, how often and how."""
    check_name_at(tree.this, "source", text)
    if spelled(tree.name, catalog.names(Catalogued.SOURCE)) is not None:
        text.fail(f"there is already a source {tree.name}; drop it first, or choose another name", tree.this)
    node = tree.args["table"]
    table = catalog.table(node.name)
    if table is None:
        text.fail(unknown("table", node.name, catalog.names(Catalogued.TABLE)), node)
    address = tree.args["address"]
    if not address.name.strip():
        text.fail("the address is empty", address)
    every: int | None = None
    options: dict[str, SourceOption] = {}
    for option in tree.expressions:
        name = option.name.lower()
        if name in options or (name == EVERY and every is not None):
            text.fail(f"{name} is set twice", option.this)
        if len(options) >= MOST_OPTIONS:
            text.fail(f"a source has {MOST_OPTIONS} settings at most", option.this)
        if name == EVERY:
            every = _every(option, text)
        else:
            options[name] = SourceOption(name, _setting(option, text))
    kind = SourceKind(tree.args["kind"])
    return CreateSource(tree.name, table.name, kind, address.name, every, tuple(options.values()))


def _every(option: nodes.Option, text: Text) -> int:
    value = option.args["expression"]
    if not value.is_string:
        text.fail("every takes a number and a unit in quotes, such as every = '1 second'", value)
    try:
        return duration(value.name)
    except ValueError as error:
        text.fail(str(error), value)


def _setting(option: nodes.Option, text: Text) -> bool | int | float | str:
    constant = fold(option.args["expression"], text)
    assert constant is not None
    assert constant.value is not None
    return constant.value
