"""SQL generator: sqlglot's, with the syntax nodes of Slackwater."""

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp, generator
from sqlglot.expressions.properties import PropertiesLocation

from slackwater.sql import nodes


def _subscribe(self: generator.Generator, node: exp.Expr) -> str:
    alias = self.sql(node, "alias")
    ends = (self.sql(node, clause) for clause in ("within", "fidelity", "every", "memory"))
    parts = ["SUBSCRIBE", f"{alias} AS" if alias else "", self.sql(node, "this"), *ends]
    return " ".join(part for part in parts if part)


def _within(self: generator.Generator, node: exp.Expr) -> str:
    return f"WITHIN {self.sql(node, 'this')}"


def _fidelity(self: generator.Generator, node: exp.Expr) -> str:
    return f"FIDELITY {self.sql(node, 'this')}{'%' if node.args.get('percent') else ''}"


def _every(self: generator.Generator, node: exp.Expr) -> str:
    return f"EVERY {self.sql(node, 'this')} {self.sql(node, 'unit')}"


def _memory(self: generator.Generator, node: exp.Expr) -> str:
    return f"MEMORY {self.sql(node, 'this')} ROWS"


def _fresh_in(self: generator.Generator, node: exp.Expr) -> str:
    return f"FRESH IN {self.sql(node, 'this')} {self.sql(node, 'unit')}"


def _event_time(self: generator.Generator, node: exp.Expr) -> str:
    return f"EVENT TIME {self.sql(node, 'this')}"


def _create_source(self: generator.Generator, node: exp.Expr) -> str:
    name, table, address = (self.sql(node, part) for part in ("this", "table", "address"))
    options = self.expressions(node, flat=True)
    end = f" WITH ({options})" if options else ""
    return f"CREATE SOURCE {name} FOR {table} FROM {node.args['kind']} {address}{end}"


def _option(self: generator.Generator, node: exp.Expr) -> str:
    return f"{self.sql(node, 'this')} = {self.sql(node, 'expression')}"


def _show(self: generator.Generator, node: exp.Expr) -> str:
    return f"SHOW {node.args['kind']}S"


def _drop(self: generator.Generator, node: exp.Expr) -> str:
    exists = "IF EXISTS " if node.args.get("exists") else ""
    return f"DROP {node.args['kind']} {exists}{self.sql(node, 'this')}"


def _explain(self: generator.Generator, node: exp.Expr) -> str:
    return f"EXPLAIN {self.sql(node, 'this')}"


class SlackwaterGenerator(generator.Generator):
    """Writes statements in our dialect."""

    PROPERTIES_LOCATION: ClassVar[dict[type[exp.Expression], PropertiesLocation]] = {
        **generator.Generator.PROPERTIES_LOCATION,
        nodes.EventTime: PropertiesLocation.POST_SCHEMA,
        nodes.FreshIn: PropertiesLocation.POST_EXPRESSION,
    }

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[[Any, Any], str]]] = {
        **generator.Generator.TRANSFORMS,
        nodes.Subscribe: _subscribe,
        nodes.Within: _within,
        nodes.FidelityClause: _fidelity,
        nodes.Every: _every,
        nodes.Memory: _memory,
        nodes.FreshIn: _fresh_in,
        nodes.EventTime: _event_time,
        nodes.CreateSource: _create_source,
        nodes.Option: _option,
        nodes.ShowNamed: _show,
        nodes.DropNamed: _drop,
        nodes.ExplainOf: _explain,
    }
