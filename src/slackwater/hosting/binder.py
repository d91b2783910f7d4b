"""Cached SQL binder of subscriptions: text → standing query, bound once for the client and again from the log."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TypeAlias

from slackwater.core.errors import SlackwaterError, SqlError
from slackwater.core.query import StandingQuery
from slackwater.core.schema import TableSchema
from slackwater.core.statement import Subscribe
from slackwater.kinds.registry import bind_text
from slackwater.sql import Catalog, bind, parse
from slackwater.sql import nodes as words
from slackwater.sql.parse import write
from slackwater.sql.template import StatementTemplates

BoundText: TypeAlias = tuple[StandingQuery, str, str | None]
"""A query, its text in normal form without a name, and its name."""

_MOST_REMEMBERED = 16_384
_MOST_REFUSED = 1_024


class Binder:
    """Binds subscriptions, on any thread; forget what was bound when the tables change."""

    def __init__(self) -> None:
        self._bound: dict[str, BoundText] = {}
        self._refused: dict[str, SlackwaterError] = {}
        self._catalog: Catalog | None = None
        self._version = 0
        self._templates = StatementTemplates()

    def forget(self) -> None:
        """Drop cached bindings, because the tables changed."""
        self._bound.clear()
        self._refused.clear()
        self._catalog = None
        self._version += 1

    def knows(self, sql: str) -> bool:
        """True if a statement needs no parsing."""
        return sql in self._bound or sql in self._refused or self._templates.knows(sql)

    def bind(self, sql: str, tables: Mapping[str, TableSchema]) -> BoundText:
        """The query, its text in normal form without a name, and its name."""
        known = self._bound.get(sql)
        if known is not None:
            return known
        refused = self._refused.get(sql)
        if refused is not None:
            raise refused.with_traceback(None)
        version = self._version
        try:
            return self._bind(sql, tables, version)
        except SlackwaterError as error:
            # Finding out what is wrong can take long, and must not take long again.
            if len(self._refused) >= _MOST_REFUSED:
                self._refused.clear()
            if version == self._version:
                self._refused[sql] = error
            raise

    def _bind(self, sql: str, tables: Mapping[str, TableSchema], version: int) -> BoundText:
        catalog = self._catalog
        if catalog is None:
            catalog = Catalog(tuple(tables.values()))
            if version == self._version:
                self._catalog = catalog
        written = bind_text(sql, tables)
        if written is not None:
            return (*written, None)
        bound = self._of_a_known_shape(sql, catalog) or self._read(sql, catalog)
        _, text, name = bound
        if version != self._version:
            # The tables have changed while this was being read: it is right as of then, and not to be remembered.
            return bound
        if len(self._bound) >= _MOST_REMEMBERED:
            self._bound.clear()
        self._bound[sql] = bound
        if name is None or text != sql:
            self._bound[text] = (bound[0], text, None)
        return bound

    def _of_a_known_shape(self, sql: str, catalog: Catalog) -> BoundText | None:
        """Bind a statement whose like was parsed before; None where it is to be parsed, also to say what is wrong."""
        with self._templates.filled(sql) as filled, suppress(SlackwaterError):
            if filled is not None:
                statement = bind(filled.parsed, catalog)
                if isinstance(statement, Subscribe):
                    return statement.query, filled.text, None if statement.name is None else str(statement.name)
        return None

    def _read(self, sql: str, catalog: Catalog) -> BoundText:
        parsed = parse(sql)
        statement = bind(parsed, catalog)
        if not isinstance(statement, Subscribe):
            raise SqlError("a standing query begins with SUBSCRIBE, as in SUBSCRIBE SELECT … FROM …")
        self._templates.learn(sql, parsed)
        tree = parsed.tree
        if statement.name is not None:
            tree = tree.copy()
            assert isinstance(tree, words.Subscribe)
            tree.set("alias", None)
        text = parsed.normal if statement.name is None else write(tree)
        return statement.query, text, None if statement.name is None else str(statement.name)
