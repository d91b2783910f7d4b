"""Binder: syntax trees → statements of `core`, with every name checked against a catalog."""

from sqlglot import exp

from slackwater.core.statement import Catalogued, Drop, Explain, Show, Statement
from slackwater.sql import nodes
from slackwater.sql.catalog import Catalog, spelled, unknown
from slackwater.sql.definitions import bind_source, bind_table
from slackwater.sql.oneshot import bind_select
from slackwater.sql.parse import ParsedStatement, reading
from slackwater.sql.place import Text
from slackwater.sql.subscription import MATERIALIZED_VIEW, bind_subscribe


def bind(parsed: ParsedStatement, catalog: Catalog) -> Statement:
    """Bind a parsed statement to this catalog.

    >>> from slackwater.sql import parse
    >>> bind(parse("SHOW TABLES"), Catalog())
    Show(what=<Catalogued.TABLE: 'TABLE'>)
    """
    with reading(parsed.text):
        return _bind(parsed.tree, catalog, parsed.text)


def _bind(tree: exp.Expr, catalog: Catalog, text: Text) -> Statement:
    match tree:
        case nodes.ExplainOf():
            return Explain(_bind(tree.this, catalog, text))
        case nodes.Subscribe():
            return bind_subscribe(tree, catalog, text)
        case nodes.CreateSource():
            return bind_source(tree, catalog, text)
        case nodes.ShowNamed():
            return Show(Catalogued(tree.args["kind"]))
        case nodes.DropNamed():
            return _drop(tree, catalog, text)
        case exp.Create() if tree.kind == "VIEW":
            text.refuse(MATERIALIZED_VIEW.sentence, tree)
        case exp.Create():
            return bind_table(tree, catalog, text)
    return bind_select(tree, catalog, text)


def _drop(tree: nodes.DropNamed, catalog: Catalog, text: Text) -> Drop:
    kind = Catalogued(tree.args["kind"])
    exists = bool(tree.args.get("exists"))
    names = catalog.names(kind)
    name = spelled(tree.name, names)
    if name is None and not exists:
        text.fail(unknown(kind.value.lower(), tree.name, names), tree.this)
    return Drop(kind, name or tree.name, exists)
