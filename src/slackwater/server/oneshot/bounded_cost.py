"""Statements of bounded cost: one small table, and functions whose work and answer grow with their input alone.

Such a statement is answered by a database in the server's own process: what it can take is known before it begins, so
no process has to be there that could be killed for it.
"""

from itertools import islice

from sqlglot import exp

from slackwater.processing.latest import LatestTable

MOST_CELLS = 20_000
"""Rows times columns of the table."""
MOST_BYTES = 1 << 20
"""Bytes of its rows: texts may be long."""
MOST_LETTERS = 1_024
"""Letters of all texts in the statement: each function may make a copy of them for each row."""
_MOST_NODES = 300
_BOUNDED = frozenset(
    {
        *("select", "from", "where", "group", "having", "order", "ordered", "limit", "offset", "distinct"),
        *("table", "tablealias", "column", "identifier", "alias", "star", "literal", "boolean", "null", "paren"),
        *("and", "or", "not", "eq", "neq", "gt", "gte", "lt", "lte", "is", "in", "between", "case", "if", "coalesce"),
        *("add", "sub", "mul", "div", "neg", "abs", "round", "floor", "ceil", "lower", "upper", "length"),
        *("count", "sum", "avg", "min", "max"),
    }
)
"""Nodes of the tree, by their keys. None makes rows or texts out of nothing, and none stands for a further SELECT."""


def has_bounded_cost(tree: exp.Expr) -> bool:
    """True if the work of a statement is in proportion to the one table it reads."""
    keys = [node.key for node in islice(tree.walk(), _MOST_NODES + 1)]
    return (
        len(keys) <= _MOST_NODES
        and keys.count("select") == 1
        and keys.count("table") == 1
        and _BOUNDED.issuperset(keys)
    )


def letters_in(tree: exp.Expr) -> int:
    """Letters of the texts in a statement."""
    return sum(len(node.name) for node in tree.find_all(exp.Literal) if node.is_string)


def is_small(latest: LatestTable) -> bool:
    """True if a table is small enough for any such statement."""
    return len(latest) * len(latest.schema.columns) <= MOST_CELLS and latest.rows.nbytes <= MOST_BYTES
