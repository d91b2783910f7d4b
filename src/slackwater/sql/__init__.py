"""SQL front end: text → the statements and queries of `core`, and back.

parse, parse_all    text → syntax trees; any text gives those or a `SqlError` with line and column
bind                a tree and a `Catalog` → a statement of `core`, every name checked
explain             a statement → an `ExplainTree`, as text or JSON
to_sql              a statement → text that binds to it
Slackwater          the dialect, for use with sqlglot
"""

from slackwater.sql.bind import bind
from slackwater.sql.catalog import Catalog
from slackwater.sql.dialect import Slackwater
from slackwater.sql.explain import explain, hosted
from slackwater.sql.explain_tree import Detail, ExplainTree, Grid
from slackwater.sql.parse import ParsedStatement, parse, parse_all
from slackwater.sql.render import to_sql

__all__ = [
    "Catalog",
    "Detail",
    "ExplainTree",
    "Grid",
    "ParsedStatement",
    "Slackwater",
    "bind",
    "explain",
    "hosted",
    "parse",
    "parse_all",
    "to_sql",
]
