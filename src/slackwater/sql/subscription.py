"""Binder of SUBSCRIBE: dispatch to the query's kind; an unsupported form is refused, with advice."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from slackwater.core.bound import EXACT, Bound
from slackwater.core.query import QueryId, StandingQuery
from slackwater.core.statement import Catalogued, Subscribe
from slackwater.kinds.base import UnboundSubscription
from slackwater.kinds.registry import classify
from slackwater.sql import nodes
from slackwater.sql.catalog import Catalog, spelled
from slackwater.sql.constants import fold, to_float
from slackwater.sql.place import Text
from slackwater.sql.shape import has_aggregates, plain_select, table_joins
from slackwater.sql.tables import check_name_at


@dataclass(frozen=True, slots=True)
class UnsupportedClause:
    """A form that standing queries do not support: its test and its error message."""

    name: str
    matches: Callable[[exp.Expr], bool]
    sentence: str


MATERIALIZED_VIEW = UnsupportedClause(
    "materialised view",
    lambda tree: isinstance(tree, exp.Create) and tree.kind == "VIEW",
    "materialised views are not possible yet; "
    "subscribe to the query where it reads one table, or ask it as a SELECT when you need it",
)
REFUSED: tuple[UnsupportedClause, ...] = (
    MATERIALIZED_VIEW,
    UnsupportedClause(
        "periodic query",
        lambda tree: bool(tree.args.get("every")),
        "EVERY is not possible yet; leave it out to be told of every change",
    ),
    UnsupportedClause(
        "join in limited memory",
        lambda tree: bool(tree.args.get("memory")),
        "joins in limited MEMORY are not possible yet; subscribe to each table by itself and join them in your program",
    ),
    UnsupportedClause(
        "aggregate of a join",
        lambda tree: any(table_joins(tree)) and has_aggregates(tree),
        "an aggregate of joined tables is not possible yet; "
        "take one table and, for weights, JOIN (VALUES …) AS p(key, w) USING (key)",
    ),
)
"""Unsupported forms; the first that matches gives the error message."""


def bind_subscribe(tree: nodes.Subscribe, catalog: Catalog, text: Text) -> Subscribe:
    """Check the names in a subscription and turn it into a query."""
    name = tree.args.get("alias")
    if name is not None:
        check_name_at(name, "subscription", text)
        if spelled(name.name, catalog.names(Catalogued.SUBSCRIPTION)) is not None:
            text.fail(f"there is already a subscription {name.name}; drop it first, or choose another name", name)
    query = _standing(tree, catalog, text)
    return Subscribe(query, None if name is None else QueryId(name.name))


def _standing(tree: nodes.Subscribe, catalog: Catalog, text: Text) -> StandingQuery:
    select = plain_select(tree)
    for refused in REFUSED:
        if refused.matches(tree):
            joins = (select.args.get("joins") if select is not None else None) or [None]
            text.refuse(refused.sentence, tree.args.get("every") or tree.args.get("memory") or joins[0])
    kind = classify(tree)
    if kind is None or select is None:
        text.refuse("a subscription is one SELECT; subscribe to the parts of a UNION or the like separately", tree.this)
    within, fidelity = tree.args.get("within"), tree.args.get("fidelity")
    if within is None and fidelity is not None:
        text.refuse("FIDELITY says how often a bound holds: write WITHIN and a number before it", fidelity)
    if within is not None and not kind.bounded:
        text.refuse(
            f"WITHIN bounds one number, a {kind.name} has rows; leave it out, or ask for SUM, AVG, COUNT, MIN or MAX",
            within,
        )
    query: StandingQuery = kind.bind(UnboundSubscription(tree, select, _bound(within, fidelity, text), catalog, text))
    return query


def _bound(within: nodes.Within | None, fidelity: nodes.FidelityClause | None, text: Text) -> Bound:
    if within is None:
        return EXACT
    width = fold(within.this, text)
    assert width is not None
    assert isinstance(width.value, int | float)
    return Bound(to_float(width.value, within.this, text), _share(fidelity, text))


def _share(fidelity: nodes.FidelityClause | None, text: Text) -> float:
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
