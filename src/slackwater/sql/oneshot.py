"""Binder of one-shot SELECT: names checked against the catalog, the statement in normal form.

sqlglot's `qualify` resolves every name and expands `*`; what it cannot resolve is looked for here once more, to
point at the place and guess what was meant. In normal form tables and columns have the spelling of the catalog.
"""

from typing import NoReturn

from sqlglot import exp
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from slackwater.core.errors import NotSupported
from slackwater.core.query import OneShot, Selection
from slackwater.core.schema import TableSchema
from slackwater.core.statement import Select
from slackwater.kinds.selection.binder import selection
from slackwater.sql.catalog import Catalog, column_spelled, unknown
from slackwater.sql.parse import DIALECT, reading, write
from slackwater.sql.place import Text
from slackwater.sql.shape import has_aggregates, plain_select, table_joins
from slackwater.sql.tables import table_of

_REFUSED: dict[type[exp.Expr], str] = {
    exp.Placeholder: "a placeholder has no value here; write the value",
    exp.Parameter: "a parameter has no value here; write the value",
    exp.SessionParameter: "a parameter has no value here; write the value",
    exp.Into: "INTO is not possible; a SELECT only reads",
    exp.Lock: "FOR UPDATE and the like are not possible; a SELECT only reads",
    exp.Summarize: "SUMMARIZE is not possible; write a SELECT",
    exp.Describe: "DESCRIBE is not possible; write SHOW TABLES",
}

MOST_SOURCES = 200
"""Tables that one query may read from: looking a name up costs as many comparisons."""
MOST_WRITTEN_OUT = 20_000
"""Columns that the stars of one query may stand for."""
MOST_DEPTHS = 300_000
"""An OR of about 700 comparisons, one after the other."""


def bind_select(tree: exp.Expr, catalog: Catalog, text: Text) -> Select:
    """Check a query's names and put it into normal form."""
    _check_size(tree, text)
    _check_stars(tree, catalog, text)
    with reading(text):
        # In small letters first, as names match whatever their case: `WITH A … FROM a` reads no table.
        tables = _tables(normalize_identifiers(tree.copy(), dialect=DIALECT), catalog, text)
    chosen = _selection(tree, catalog, text)
    with reading(text):
        try:
            qualified = qualify(_with_aliases(tree.copy()), dialect=DIALECT, schema=_schema(catalog))
        except OptimizeError as error:
            _explain_failure(tree, error, catalog, text)
        _respell(qualified, tree, catalog)
        return Select(OneShot(write(qualified), tables, chosen))


def _check_size(tree: exp.Expr, text: Text) -> None:
    """Refuse clauses of standing queries, and trees whose names would take too long to resolve.

    For each name sqlglot walks up to the query it stands in, several times: what it costs is the sum of the depths.
    """
    depths = 0
    rest: list[tuple[exp.Expr, int]] = [(tree, 0)]
    while rest:
        node, depth = rest.pop()
        if type(node) in _REFUSED:
            text.refuse(_REFUSED[type(node)], node)
        if isinstance(node, exp.Column | exp.Table | exp.Select):
            depths += depth
            if depths > MOST_DEPTHS:
                text.fail("the query is too tangled to look its names up; use IN for long lists of OR", tree)
        rest.extend((part, depth + 1) for part in node.iter_expressions())


def _check_stars(tree: exp.Expr, catalog: Catalog, text: Text) -> None:
    """Refuse queries whose stars, written out, or whose tables would be beyond all use."""
    tables = sum(1 for _ in tree.find_all(exp.Table))
    if tables > MOST_SOURCES:
        text.fail(f"the query reads from {tables} places, the most is {MOST_SOURCES}", tree)
    stars = sum(1 for _ in tree.find_all(exp.Star))
    widest = max((len(table.columns) for table in catalog.tables), default=0)
    if stars * max(tables, 1) * widest > MOST_WRITTEN_OUT:
        text.fail(f"{stars} stars over {tables} tables are too many columns to write out; name those you need", tree)


def _selection(tree: exp.Expr, catalog: Catalog, text: Text) -> Selection | None:
    """The same question as a selection, where it is one."""
    select = plain_select(tree)
    if select is None or has_aggregates(tree) or any(table_joins(tree)):
        return None
    try:
        return selection(select, catalog, text)
    except NotSupported:
        return None


def _tables(tree: exp.Expr, catalog: Catalog, text: Text) -> tuple[str, ...]:
    """The tables that a query reads, in order of their names; one that does not exist is an error at its place."""
    found: set[str] = set()
    sources = [source for scope in traverse_scope(tree) for source in scope.sources.values()]
    for table in [source for source in sources if isinstance(source, exp.Table)]:
        if not isinstance(table.this, exp.Identifier):
            text.refuse("a SELECT reads tables; a function after FROM is not possible", table)
        found.add(table_of(table, catalog, text).name)
    return tuple(sorted(found))


def _with_aliases(tree: exp.Expr) -> exp.Expr:
    """Tables whose names need quotes, under that name: sqlglot would give them one and read it as SQL."""
    for table in tree.find_all(exp.Table):
        if table.name and not table.alias and not table.name.isidentifier():
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    return tree


def _schema(catalog: Catalog) -> MappingSchema:
    """The catalog for sqlglot: in small letters, as our dialect normalises names."""
    columns: dict[str, object] = {
        table.name.lower(): {column.name.lower(): column.type.value for column in table.columns}
        for table in catalog.tables
    }
    # Names are as they are looked up already; normalising would read them as SQL, and some need quotes there.
    return MappingSchema(columns, dialect=DIALECT, normalize=False)


def _explain_failure(tree: exp.Expr, error: OptimizeError, catalog: Catalog, text: Text) -> NoReturn:
    """Find the name that sqlglot could not resolve and say so at its place."""
    known = _known_names(tree, catalog)
    for column in tree.find_all(exp.Column, bfs=False):
        if not isinstance(column.this, exp.Star) and column.name.lower() not in known:
            text.fail(unknown("column", column.name, known.values(), " in the tables of this query"), column.this)
    message = str(error).splitlines()[0].split(" Line: ")[0].split(" (Line: ")[0].rstrip(".")
    named = [
        column
        for column in tree.find_all(exp.Column, bfs=False)
        if not column.table and f"'{column.name.lower()}'" in message.lower()
    ]
    if named:
        name = named[0].name
        text.fail(f"it is not clear which {name} is meant here; write table.{name}", named[0])
    text.fail(f"the names in this query do not fit together: {message[:1].lower()}{message[1:200]}", tree)


def _known_names(tree: exp.Expr, catalog: Catalog) -> dict[str, str]:
    """Every name that a column of the query could have, by its small letters."""
    known: dict[str, str] = {}
    for table in tree.find_all(exp.Table):
        schema = catalog.table(table.name)
        known |= {column.name.lower(): column.name for column in schema.columns} if schema is not None else {}
    for alias in tree.find_all(exp.Alias):
        known[alias.alias.lower()] = alias.alias
    for listed in tree.find_all(exp.TableAlias):
        known |= {column.name.lower(): column.name for column in listed.args.get("columns") or ()}
    return known


def _respell(tree: exp.Expr, written: exp.Expr, catalog: Catalog) -> None:
    """Give tables and columns of the catalog, and the columns of the answer, their own spelling."""
    scopes = list(traverse_scope(tree))
    for scope in scopes:
        for column in scope.columns:
            table = _table_of(scope.sources.get(column.table), catalog)
            name = column_spelled(table, column.name) if table is not None else None
            if name is not None:
                column.this.set("this", name)
    if isinstance(tree, exp.Select) and isinstance(written, exp.Select):
        _respell_answer(tree, written)
    for scope in scopes:
        for source in scope.sources.values():
            table = _table_of(source, catalog)
            if table is not None and isinstance(source, exp.Table):
                source.this.set("this", table.name)


def _table_of(source: exp.Expr | Scope | None, catalog: Catalog) -> TableSchema | None:
    return catalog.table(source.name) if isinstance(source, exp.Table) else None


def _respell_answer(select: exp.Select, written: exp.Select) -> None:
    """The names of the answer: as written after AS, else as the table spells them."""
    given = {node.alias.lower(): node.alias for node in written.expressions if isinstance(node, exp.Alias)}
    spelling: dict[str, str] = {}
    for node in select.expressions:
        if isinstance(node, exp.Alias):
            own = node.this.name if isinstance(node.this, exp.Column) else ""
            name = given.get(node.alias, own if own.lower() == node.alias else node.alias)
            spelling[node.alias] = name
            node.args["alias"].set("this", name)
    # ORDER BY may go by a name of the answer; it has no table before it then.
    order = select.args.get("order")
    for column in order.find_all(exp.Column) if order is not None else ():
        if not column.table and column.name in spelling:
            column.this.set("this", spelling[column.name])
