"""PlanCache of one-shot queries, remembered by text and by shape: reading SQL takes longer than looking a row up.

Design
    The *shape* of a statement is its text with its literals left out. A plan by shape is made of a sample: the
    statement with distinct values in place of the literals, read and bound like any other. Where each of these values
    stands in the sample's plan exactly once, that is where the literals of other statements go. The plan so made of the
    first statement must equal the plan that was bound for it. A shape for which anything of this fails, because the
    meaning of a literal is more than its value (`ORDER BY 1`), is read anew for every text.

    Only whole numbers of up to 18 digits and texts of printable characters without quotes and backslashes count as
    literals: they are written in DuckDB as in our SQL. All others belong to the shape.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from slackwater.core.errors import SlackwaterError
from slackwater.core.query import OneShot
from slackwater.core.schema import TableSchema
from slackwater.core.statement import Select
from slackwater.core.types import Key
from slackwater.server.oneshot.bounded_cost import MOST_LETTERS, has_bounded_cost, letters_in
from slackwater.server.oneshot.lookup import Lookup, lookup_of
from slackwater.sql import Catalog, bind, parse

LONGEST_TEXT = 4_096
"""Characters of a statement whose plan is remembered."""
MOST_TEXTS = 4_096
MOST_SHAPES = 1_024
MOST_LITERALS = 64
_TOKEN = re.compile(
    r"""(?P<quoted>"[^"]*")|'(?P<text>[^'\\]*)'|(?P<name>[^\W\d]\w*)|(?P<number>\d[\w.]*)|.""", re.DOTALL
)
_UNSHAPED = ("--", "/*", "\\", "$", "''")
"""Comments and escapes: statements with them are remembered by their text alone."""
_NUMBER, _TEXT = "\0i", "\0s"
"""Marks of literals in a shape; no statement that has a shape has such a character."""
_DIGITS = 18
_FIRST_SAMPLE = 700_000_001


Entry = TypeVar("Entry")


class Lowering(Protocol):
    """Writes queries in the words of the evaluator's database, or refuses them."""

    def statement(self, query: OneShot) -> str:
        """The statement."""
        ...


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What it takes to answer a query: the statement for the database, the tables, the look-up where it is one."""

    statement: str
    tables: tuple[str, ...]
    lookup: Lookup | None = None
    bounded: bool = False
    """True where its cost is bounded by the size of its table and its letters."""
    letters: int = 0
    """Letters of the texts in the statement."""

    def is_bounded(self) -> bool:
        """True where its cost is bounded by the size of its table alone: the letters are few."""
        return self.bounded and self.letters <= MOST_LETTERS


class _Known:
    """What is remembered for the tables as they were at one time."""

    def __init__(self, tables: Mapping[str, TableSchema]) -> None:
        self.tables = tables
        self.texts: dict[str, QueryPlan] = {}
        self.shapes: dict[str, _PlanTemplate | None] = {}
        """Templates of shapes; None of those that were met once, or have none."""
        self.tried: set[str] = set()


@dataclass(frozen=True, slots=True)
class _Shape:
    text: str
    literals: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class _PlanTemplate:
    """A plan of a sample: the statement in pieces, with the number of a literal between each two of them."""

    pieces: tuple[str, ...]
    order: tuple[int, ...]
    plan: QueryPlan
    samples: Mapping[int | str, int]

    def plan_of(self, literals: tuple[int | str, ...]) -> QueryPlan:
        """The plan with these literals."""
        written = [self.pieces[0]]
        for nth, piece in zip(self.order, self.pieces[1:], strict=True):
            written += (_written(literals[nth]), piece)
        lookup = self.plan.lookup
        if lookup is not None:
            keys = tuple(self._key(key, literals) for key in lookup.keys)
            lookup = replace(lookup, keys=keys)
        letters = self.plan.letters + _letters(literals) - _letters(self.samples)
        return QueryPlan("".join(written), self.plan.tables, lookup, self.plan.bounded, letters)

    def _key(self, key: Key, literals: tuple[int | str, ...]) -> Key:
        return tuple(self._part(part, literals) for part in key)

    def _part(self, part: object, literals: tuple[int | str, ...]) -> int | str:
        assert isinstance(part, int | str)
        if isinstance(part, int) and part < 0:
            value = literals[self.samples[-part]]
            assert isinstance(value, int)
            return -value
        return literals[self.samples[part]]


class PlanCache:
    """The plans of one server, for its tables as they are; `find` on the event loop, `make` on any thread."""

    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering
        self._known = _Known({})
        """Replaced as a whole: a plan that is made meanwhile is remembered by the former one alone."""

    def find(self, sql: str, tables: Mapping[str, TableSchema]) -> QueryPlan | None:
        """The plan of a statement that was met before, or whose shape was."""
        if tables != self._known.tables:
            self._known = _Known(dict(tables))
        known = self._known.texts.get(sql)
        if known is not None:
            return known
        shape = _shape(sql)
        template = None if shape is None else self._known.shapes.get(shape.text)
        return None if shape is None or template is None else template.plan_of(shape.literals)

    def make(self, sql: str, query: OneShot, tables: Mapping[str, TableSchema]) -> QueryPlan:
        """The plan of a query bound to these tables, remembered; met for the second time, that of its shape too."""
        known = self._known
        plan = self._plan(query, tables)
        if len(sql) > LONGEST_TEXT or tables != known.tables:
            return plan
        shape = _shape(sql)
        if shape is None or shape.text in known.tried:
            _remember(known.texts, sql, plan, MOST_TEXTS)
        elif shape.text in known.shapes:
            known.tried.add(shape.text)
            known.shapes[shape.text] = self._template(sql, plan, shape, tables)
        else:
            if len(known.shapes) >= MOST_SHAPES:
                known.tried.clear()
            _remember(known.shapes, shape.text, None, MOST_SHAPES)
        return plan

    def _plan(self, query: OneShot, tables: Mapping[str, TableSchema]) -> QueryPlan:
        statement = self._lowering.statement(query)
        if len(query.tables) != 1:
            return QueryPlan(statement, query.tables)
        tree = parse(query.text).tree
        lookup = lookup_of(tree, tables[query.tables[0]])
        return QueryPlan(statement, query.tables, lookup, has_bounded_cost(tree), letters_in(tree))

    def _template(
        self, sql: str, plan: QueryPlan, shape: _Shape, tables: Mapping[str, TableSchema]
    ) -> _PlanTemplate | None:
        """The template of a shape, if it gives this plan for this statement."""
        samples: list[int | str] = [
            _FIRST_SAMPLE + nth if isinstance(literal, int) else f"sample {_FIRST_SAMPLE + nth}"
            for nth, literal in enumerate(shape.literals)
        ]
        try:
            statement = bind(parse(_with_literals(sql, samples)), Catalog(tuple(tables.values())))
            if not isinstance(statement, Select):
                return None
            sample = self._plan(statement.query, tables)
        except SlackwaterError:
            return None
        numbers = {literal: nth for nth, literal in enumerate(samples)}
        places = sorted((sample.statement.find(_written(one)), nth) for one, nth in numbers.items())
        if any(sample.statement.count(str(one)) != 1 for one in samples) or any(at < 0 for at, _ in places):
            return None
        pieces, at = [], 0
        for place, nth in places:
            pieces.append(sample.statement[at:place])
            at = place + len(_written(samples[nth]))
        pieces.append(sample.statement[at:])
        template = _PlanTemplate(tuple(pieces), tuple(nth for _, nth in places), sample, numbers)
        return template if template.plan_of(shape.literals) == plan else None


def _shape(sql: str) -> _Shape | None:
    """The shape of a statement and its literals; None where it has none that is worth remembering."""
    if len(sql) > LONGEST_TEXT or not sql.isprintable() or any(sign in sql for sign in _UNSHAPED):
        return None
    literals: list[int | str] = []
    pieces: list[str] = []
    for token in _TOKEN.finditer(sql):
        literal = _literal(token)
        if literal is None:
            pieces.append(token.group())
        else:
            literals.append(literal)
            pieces.append(_NUMBER if isinstance(literal, int) else _TEXT)
    return _Shape("".join(pieces), tuple(literals)) if 0 < len(literals) <= MOST_LITERALS else None


def _literal(token: re.Match[str]) -> int | str | None:
    if token.lastgroup == "text":
        return token["text"]
    if token.lastgroup == "number" and (number := token["number"]).isdecimal() and number.isascii():
        # A zero before it is a way of writing that is not kept.
        return int(number) if len(number) <= _DIGITS and str(int(number)) == number else None
    return None


def _with_literals(sql: str, literals: list[int | str]) -> str:
    """A statement with other literals in the places of its own."""
    rest = iter(literals)
    return "".join(token.group() if _literal(token) is None else _written(next(rest)) for token in _TOKEN.finditer(sql))


def _letters(literals: Iterable[int | str]) -> int:
    return sum(len(one) for one in literals if isinstance(one, str))


def _written(literal: int | str) -> str:
    return str(literal) if isinstance(literal, int) else f"'{literal}'"


def _remember(known: dict[str, Entry], name: str, value: Entry, most: int) -> None:
    """Add an entry; all are forgotten when there are too many, for those in use come again at once."""
    if len(known) >= most:
        known.clear()
    known[name] = value
