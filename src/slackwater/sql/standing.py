"""SUBSCRIBE → selections, joins and aggregates; kinds that cannot stand yet are refused with what to write instead."""

from decimal import Decimal

from sqlglot import exp

from slackwater.core.bound import EXACT, Bound
from slackwater.core.query import QueryId, Selection, StandingQuery
from slackwater.core.region import EVERYTHING, Region
from slackwater.core.schema import TableSchema
from slackwater.core.statement import Catalogued, Subscribe
from slackwater.sql import nodes
from slackwater.sql.aggregates import aggregate
from slackwater.sql.catalog import Catalog, spelled
from slackwater.sql.classify import Kind, classify, plain_select
from slackwater.sql.condition import Condition, Names
from slackwater.sql.constants import fold, to_float
from slackwater.sql.joins import join
from slackwater.sql.place import Text
from slackwater.sql.tables import check_name_at, from_table, refuse_other_parts

NOT_YET: dict[Kind, str] = {
    Kind.MATERIALIZED_VIEW: (
        "materialised views are not possible yet; "
        "subscribe to the query where it reads one table, or ask it as a SELECT when you need it"
    ),
    Kind.PERIODIC: "EVERY is not possible yet; leave it out to be told of every change",
    Kind.MEMORY_JOIN: (
        "joins in limited MEMORY are not possible yet; subscribe to each table by itself and join them in your program"
    ),
    Kind.JOIN_AGGREGATE: (
        "an aggregate of joined tables is not possible yet; "
        "take one table and, for weights, JOIN (VALUES …) AS p(key, w) USING (key)"
    ),
}
"""What is said about a kind until its capability comes."""


def bind_subscribe(tree: nodes.Subscribe, catalog: Catalog, text: Text) -> Subscribe:
    """Check the names in a subscription and turn it into a query."""
    name = tree.args.get("alias")
    if name is not None:
        check_name_at(name, "subscription", text)
        if spelled(name.name, catalog.names(Catalogued.SUBSCRIPTION)) is not None:
            text.fail(f"there is already a subscription {name.name}; drop it first, or choose another name", name)
    query = _standing(tree, catalog, text)
    return Subscribe(query, None if name is None else QueryId(name.name))


def refuse_kind(kind: Kind, text: Text, node: exp.Expr | None) -> None:
    """Refuse a kind that cannot stand yet."""
    if kind in NOT_YET:
        text.refuse(NOT_YET[kind], node)


def _standing(tree: nodes.Subscribe, catalog: Catalog, text: Text) -> StandingQuery:
    kind = classify(tree)
    if kind is None:
        text.refuse("a subscription is one SELECT; subscribe to the parts of a UNION or the like separately", tree.this)
    select = plain_select(tree)
    joins = (select.args.get("joins") if select is not None else None) or [None]
    refuse_kind(kind, text, tree.args.get("every") or tree.args.get("memory") or joins[0])
    assert select is not None
    within, fidelity = tree.args.get("within"), tree.args.get("fidelity")
    if within is None and fidelity is not None:
        text.refuse("FIDELITY says how often a bound holds: write WITHIN and a number before it", fidelity)
    if kind in (Kind.SELECTION, Kind.BAND_JOIN, Kind.SELECT_JOIN):
        if within is not None:
            what = "selection" if kind is Kind.SELECTION else "join"
            text.refuse(
                f"WITHIN bounds one number, a {what} has rows; leave it out, or ask for SUM, AVG, COUNT, MIN or MAX",
                within,
            )
        return selection(select, catalog, text) if kind is Kind.SELECTION else join(select, catalog, text)
    bound = _bound(within, fidelity, text)
    table, names = from_table(select, catalog, text)
    if within is not None and bound.always and catalog.pull_only(table.name):
        text.refuse(
            f"table {table.name} is only known when its sources are fetched, so no bound holds always; "
            f"say how often it must hold, as in WITHIN {within.this.sql()} FIDELITY 98%",
            within,
        )
    return aggregate(select, table, names, bound, where(select, names), text)


def selection(select: exp.Select, catalog: Catalog, text: Text) -> Selection:
    """A selection of rows of one table; what is more than that is refused."""
    refuse_other_parts(select, {"expressions", "from_", "where"}, text)
    table, names = from_table(select, catalog, text)
    return Selection(table.name, _columns(select, table, names, text), where(select, names))


def where(select: exp.Select, names: Names) -> Region:
    """The region of a query's WHERE."""
    clause = select.args.get("where")
    return EVERYTHING if clause is None else Condition(names).region(clause.this)


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


def _bound(within: nodes.Within | None, fidelity: nodes.Fidelity | None, text: Text) -> Bound:
    if within is None:
        return EXACT
    width = fold(within.this, text)
    assert width is not None
    assert isinstance(width.value, int | float)
    return Bound(to_float(width.value, within.this, text), _share(fidelity, text))


def _share(fidelity: nodes.Fidelity | None, text: Text) -> float:
    """The share of time, from `98%` or `0.98`."""
    if fidelity is None:
        return 1.0
    number = fold(fidelity.this, text)
    assert number is not None
    # In decimal: 97.3 % is the double nearest to 0.973, whichever way it is written.
    share = Decimal(str(number.value)) / (100 if fidelity.args.get("percent") else 1)
    if not (share <= 1 and float(share) > 0):
        advice = "; 98 percent is written 98% or 0.98" if share > 1 and not fidelity.args.get("percent") else ""
        text.fail(f"FIDELITY must be above 0% and at most 100%{advice}", fidelity)
    return float(share)
