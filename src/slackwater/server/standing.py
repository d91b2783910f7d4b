"""Subscriptions as text → standing queries, remembered: a text is bound when asked for and again from the log."""

from collections.abc import Mapping

from slackwater.core.errors import SqlError
from slackwater.core.query import StandingQuery
from slackwater.core.schema import TableSchema
from slackwater.core.statement import Subscribe
from slackwater.sql import Catalog, bind, parse
from slackwater.sql import nodes as words
from slackwater.sql.parse import write

_MOST_REMEMBERED = 4_096


class Binder:
    """Binds subscriptions; forget what was bound when the tables change."""

    def __init__(self) -> None:
        self._bound: dict[str, tuple[StandingQuery, str, str | None]] = {}
        self._catalog: Catalog | None = None

    def forget(self) -> None:
        """The tables are others now."""
        self._bound.clear()
        self._catalog = None

    def bind(self, sql: str, tables: Mapping[str, TableSchema]) -> tuple[StandingQuery, str, str | None]:
        """The query, its text in normal form without a name, and its name."""
        known = self._bound.get(sql)
        if known is not None:
            return known
        if self._catalog is None:
            self._catalog = Catalog(tuple(tables.values()))
        parsed = parse(sql)
        statement = bind(parsed, self._catalog)
        if not isinstance(statement, Subscribe):
            raise SqlError("a standing query begins with SUBSCRIBE, as in SUBSCRIBE SELECT … FROM …")
        tree = parsed.tree.copy()
        assert isinstance(tree, words.Subscribe)
        tree.set("alias", None)
        text = write(tree)
        name = None if statement.name is None else str(statement.name)
        bound = (statement.query, text, name)
        if len(self._bound) >= _MOST_REMEMBERED:
            self._bound.clear()
        self._bound[sql] = bound
        if name is None or text != sql:
            self._bound[text] = (statement.query, text, None)
        return bound
