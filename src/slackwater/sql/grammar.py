"""SQL parser: sqlglot's for queries and columns; statements and clauses of Slackwater are parsed here.

It accepts exactly the statements of the language; whatever else sqlglot could read (INSERT, GRANT, commands it
would keep as text) is an error. How clauses at the end are told from names: `clauses`.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from sqlglot import exp, parser
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from slackwater.sql import clauses, nodes
from slackwater.sql.clauses import ClauseShape, is_word

SHOWN = {"TABLES": "TABLE", "SOURCES": "SOURCE", "SUBSCRIPTIONS": "SUBSCRIPTION"}
"""Plural nouns of SHOW and their singular in DROP."""
SOURCE_KINDS = ("HTTP", "FILE")
QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.VALUES)

STEPS_PER_TOKEN = 20
"""The parser tries alternatives and goes back; sensible statements take about one step a token."""

_BEGINNINGS = "CREATE, DROP, EXPLAIN, SELECT, SHOW or SUBSCRIBE"


class Misfit(ParseError):
    """A parse error that knows the offset in the text at which it happened."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class Tangled(Exception):
    """The parser went back and forth too often. Not a ParseError: sqlglot would catch that and try on."""


class SlackwaterParser(parser.Parser):
    """Reads the statements of the language."""

    PROPERTY_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
        "EVENT": lambda self: self._parse_event_time(),
        "MATERIALIZED": lambda self: self.expression(exp.MaterializedProperty()),
    }

    # sqlglot gives these no place; errors need one.
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., exp.Expr | None]]] = {
        **parser.Parser.PRIMARY_PARSERS,
        TokenType.NULL: lambda self, token: self.expression(exp.Null(), token),
        TokenType.TRUE: lambda self, token: self.expression(exp.Boolean(this=True), token),
        TokenType.FALSE: lambda self, token: self.expression(exp.Boolean(this=False), token),
    }

    _steps = 0

    # ---- errors -----------------------------------------------------------------------------------------

    def raise_error(self, message: str, token: Token = parser.SENTINEL_NONE) -> None:
        """Raise where sqlglot would format; the place is where the token starts, or the end of the text."""
        token = token or self._curr
        if token:
            raise Misfit(_in_words(message, token, self._prev), token.start)
        raise Misfit(_in_words(message, token, self._prev), self._prev.end + 1 if self._prev else 0)

    def _advance(self, times: int = 1) -> None:
        self._steps += 1
        if self._steps > STEPS_PER_TOKEN * (len(self._tokens) + 10):
            raise Tangled
        super()._advance(times)

    def _parse_as_command(self, start: Token) -> exp.Command:
        self.raise_error("Invalid expression / Unexpected token")
        raise AssertionError("unreachable")

    def _parse_command(self) -> exp.Command:
        return self._parse_as_command(self._prev)

    # ---- statements -------------------------------------------------------------------------------------

    def _parse_statement(self) -> exp.Expr | None:
        if self._index > 0:
            # sqlglot calls this again for the body of WITH: only a query may stand there.
            return self._query()
        return self._statement()

    def _statement(self) -> exp.Expr:
        if is_word(self._curr, ("SUBSCRIBE",)):
            return self._subscribe()
        if is_word(self._curr, ("EXPLAIN",)):
            self._advance()
            if is_word(self._curr, ("EXPLAIN",)):
                self.raise_error("EXPLAIN cannot explain itself; write it once")
            return self.expression(nodes.ExplainOf(this=self._statement()))
        if is_word(self._curr, ("SHOW",)):
            return self._show()
        if self._match(TokenType.DROP):
            return self._drop()
        if self._match(TokenType.CREATE):
            return self._create()
        if self._curr.token_type in QUERY_STARTS:
            return self._query()
        came = f"not with {_shown(self._curr)}" if self._curr else "and there is nothing"
        self.raise_error(f"a statement begins with {_BEGINNINGS}, {came}")
        raise AssertionError("unreachable")

    def _parse_select_query(self, *args: bool, **kwargs: bool) -> exp.Expr | None:
        first = self._curr
        query = super()._parse_select_query(*args, **kwargs)
        return query.update_positions(first) if query is not None else None

    def _query(self) -> exp.Expr:
        query = self._parse_ddl_select()
        if not isinstance(query, exp.Query | exp.Values):
            self.raise_error("expected a query, which begins with SELECT")
        assert query is not None
        if any(not select.expressions for select in query.find_all(exp.Select)):
            self.raise_error("expected columns or * after SELECT")
        return query

    def _name(self, what: str) -> exp.Expr:
        name = self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier) or not name.name:
            self.raise_error(f"expected the name of a {what}")
        assert name is not None
        return name

    def _subscribe(self) -> exp.Expr:
        first = self._curr
        self._advance()
        alias = None
        if self._next.token_type is TokenType.ALIAS:
            alias = self._name("subscription")
            self._match(TokenType.ALIAS)
        query = self._before(clauses.OF_SUBSCRIBE, self._query)
        given: dict[str, exp.Expr] = {}
        while self._curr:
            word = self._curr.text.lower()
            if word in given:
                self.raise_error(f"{word.upper()} is written twice")
            given[word] = self._clause()
        subscribe = nodes.Subscribe(this=query, alias=alias, **given)
        return self.expression(subscribe, token=first)

    def _clause(self) -> exp.Expr:
        """Read one clause; its shape is known to be right."""
        first = self._curr
        word = first.text.upper()
        self._advance()
        self._match_text_seq("IN")
        number = self._parse_primary()
        clause: exp.Expr
        match word:
            case "WITHIN":
                clause = nodes.Within(this=number)
            case "FIDELITY":
                clause = nodes.FidelityClause(this=number, percent=self._match(TokenType.MOD))
            case "MEMORY":
                self._match(TokenType.ROWS)
                clause = nodes.Memory(this=number)
            case _:
                unit = exp.var(self._curr.text.upper())
                self._advance()
                kind = nodes.Every if word == "EVERY" else nodes.FreshIn
                clause = kind(this=number, unit=unit)
        return self.expression(clause, token=first)

    def _before(self, shapes: Sequence[ClauseShape], parse: Callable[[], exp.Expr]) -> exp.Expr:
        """Parse what stands before the clauses at the end, as if the statement ended there."""
        whole = self._tokens
        cut = clauses.ending(whole[self._index :], shapes) + self._index
        self._tokens, self._tokens_size = whole[:cut], cut
        self._advance(0)
        parsed = parse()
        if self._curr:
            self.raise_error("Invalid expression / Unexpected token")
        self._tokens, self._tokens_size = whole, len(whole)
        self._advance(0)
        return parsed

    def _show(self) -> exp.Expr:
        first = self._curr
        self._advance()
        if not is_word(self._curr, SHOWN):
            self.raise_error("expected TABLES, SOURCES or SUBSCRIPTIONS after SHOW")
        kind = SHOWN[self._curr.text.upper()]
        self._advance()
        return self.expression(nodes.ShowNamed(kind=kind), token=first)

    def _drop(self) -> exp.Expr:
        if not is_word(self._curr, tuple(SHOWN.values())):
            self.raise_error("expected TABLE, SOURCE or SUBSCRIPTION after DROP")
        kind = self._curr.text.upper()
        self._advance()
        exists = bool(self._match_text_seq("IF", "EXISTS"))
        return self.expression(nodes.DropNamed(this=self._name(kind.lower()), kind=kind, exists=exists))

    def _create(self) -> exp.Expr:
        if is_word(self._curr, ("SOURCE",)):
            self._advance()
            return self._create_source()
        if self._curr.token_type is TokenType.TABLE:
            return self._parse_create()
        if is_word(self._curr, ("MATERIALIZED",)) and self._next.token_type is TokenType.VIEW:
            view = self._before(clauses.OF_VIEW, self._parse_create)
            if self._curr:
                fresh = self._clause()
                if self._curr:
                    self.raise_error("FRESH IN is written twice")
                view.args["properties"].append("expressions", fresh)
            return view
        self.raise_error("expected TABLE, SOURCE or MATERIALIZED VIEW after CREATE")
        raise AssertionError("unreachable")

    def _create_source(self) -> exp.Expr:
        name = self._name("source")
        self._expect("FOR", "the table it feeds")
        table = self._name("table")
        self._expect("FROM", "where it reads")
        if not is_word(self._curr, SOURCE_KINDS):
            self.raise_error(f"expected {' or '.join(SOURCE_KINDS)} after FROM")
        kind = self._curr.text.upper()
        self._advance()
        if self._curr.token_type is not TokenType.STRING:
            self.raise_error(f"expected an address in quotes after {kind}, such as 'https://…' or 'folder/file.csv'")
        address = self._parse_primary_text()
        options: list[exp.Expr] = []
        if self._match(TokenType.WITH):
            self._match_l_paren()
            options = self._parse_csv(self._option)
            self._match_r_paren()
        source = nodes.CreateSource(this=name, table=table, kind=kind, address=address, expressions=options)
        return self.expression(source)

    def _parse_primary_text(self) -> exp.Expr:
        """One string; sqlglot's own would join strings that follow each other."""
        token = self._curr
        self._advance()
        return exp.Literal.string(token.text).update_positions(token)

    def _expect(self, word: str, what: str) -> None:
        if not self._match_text_seq(word):
            self.raise_error(f"expected {word} and {what}")

    def _option(self) -> exp.Expr:
        name = self._name("setting")
        if not self._match(TokenType.EQ):
            self.raise_error("expected = and a value")
        first = self._curr
        negative = self._match(TokenType.DASH)
        value: exp.Expr | None = None
        if self._curr.token_type is TokenType.NUMBER:
            value = self._parse_number()
        elif not negative and self._curr.token_type is TokenType.STRING:
            value = self._parse_primary_text()
        elif not negative and self._curr.token_type in (TokenType.TRUE, TokenType.FALSE):
            value = self._parse_boolean()
        if value is None:
            self.raise_error("expected a number, a text in quotes, TRUE or FALSE")
        value = exp.Neg(this=value) if negative else value
        return self.expression(nodes.Option(this=name, expression=value), token=first)

    # ---- the ends of CREATE ---------------------------------------------------------------------------

    def _parse_property(self) -> exp.Expr | list[exp.Expr] | None:
        if self._match_texts(self.PROPERTY_PARSERS):
            return self.PROPERTY_PARSERS[self._prev.text.upper()](self)
        return None

    def _parse_event_time(self) -> exp.Expr:
        first = self._prev
        if not self._match_text_seq("TIME"):
            self.raise_error("expected TIME and a column after EVENT")
        return self.expression(nodes.EventTime(this=self._name("column")), token=first)


def _shown(token: Token) -> str:
    text = token.text if len(token.text) <= 40 else token.text[:40] + "…"
    return repr(text)


def _in_words(message: str, token: Token, before: Token) -> str:
    """The message of a sqlglot error, as a sentence."""
    unexpected = message.startswith("Invalid expression")
    if unexpected:
        message = f"did not expect {_shown(token)} here" if token else "the statement ends too early"
    elif message.startswith(("Required", "Expected table name")):
        message = f"something is missing before {_shown(token)}" if token else "the statement ends too early"
    elif message[:2].istitle():
        message = message[0].lower() + message[1:]
    if unexpected:
        for near in (token, before):
            if near and near.text.upper() in clauses.ADVICE:
                return f"{message}; {clauses.ADVICE[near.text.upper()]}"
    return message
