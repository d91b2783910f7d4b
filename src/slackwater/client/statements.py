"""Statement routing: the request for each SQL statement; the server parses and decides."""

from dataclasses import dataclass

from sqlglot import exp

from slackwater.core.errors import NotSupported
from slackwater.core.statement import Catalogued
from slackwater.sql import nodes, parse

_PATHS = {Catalogued.TABLE: "/v1/tables", Catalogued.SUBSCRIPTION: "/v1/subscriptions"}


@dataclass(frozen=True, slots=True)
class Definition:
    """Send the statement there."""

    path: str


@dataclass(frozen=True, slots=True)
class Removal:
    """Delete what has this name there."""

    path: str
    name: str
    if_exists: bool


def understood(sql: str) -> Definition | Removal:
    """Classify a statement into its request; a `SqlError` where there is none.

    >>> understood("DROP TABLE IF EXISTS quotes")
    Removal(path='/v1/tables', name='quotes', if_exists=True)
    """
    tree = parse(sql).tree
    match tree:
        case nodes.Subscribe():
            return Definition(_PATHS[Catalogued.SUBSCRIPTION])
        case nodes.DropNamed() if (kind := Catalogued(tree.args["kind"])) in _PATHS:
            return Removal(_PATHS[kind], tree.name, bool(tree.args.get("exists")))
        case exp.Create():
            return Definition(_PATHS[Catalogued.TABLE])
        case nodes.CreateSource() | nodes.DropNamed():
            raise NotSupported("a server has no sources of its own: send it rows with ingest, or slackwater replay")
    raise NotSupported("this asks something and changes nothing: use query instead of execute")
