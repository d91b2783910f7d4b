"""Parser entry point: any text gives syntax trees or a `SqlError`, in bounded time.

Three limits keep a stranger's text from costing more than its length: how long a statement may be, how deep its
brackets may nest (checked on the tokens, before the recursive parser sees them) and how often the parser may
step back (`grammar.STEPS_PER_TOKEN`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from slackwater.core.errors import AlgebraError, SchemaError, SqlError
from slackwater.sql.dialect import Slackwater
from slackwater.sql.grammar import Misfit, Tangled
from slackwater.sql.place import Text, line_and_column

LONGEST_STATEMENT = 64 * 1024
LONGEST_SCRIPT = 1024 * 1024
MOST_TOKENS = 32 * 1024
DEEPEST_NESTING = 24

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})

DIALECT = Slackwater()


@dataclass(frozen=True)
class ParsedStatement:
    """One statement as a syntax tree of sqlglot's nodes and ours (`sql.nodes`); names in it are not checked.

    >>> parse("select  Price from cars -- cheap ones").sql()
    'SELECT Price FROM cars'
    """

    tree: exp.Expr
    normal: str
    source: str = field(compare=False, repr=False)
    start: int = field(compare=False, repr=False)

    def sql(self) -> str:
        """The statement in normal form: parses to the same tree."""
        return self.normal

    @property
    def text(self) -> Text:
        """The text it came from, for errors."""
        return Text(self.source, self.start)


def parse(text: str) -> ParsedStatement:
    """Read one statement; a semicolon may end it.

    >>> parse("SUBSCRIBE hot AS SELECT AVG(celsius) FROM sensors WITHIN 0.5 FIDELITY 98 %;").sql()
    'SUBSCRIBE hot AS SELECT AVG(celsius) FROM sensors WITHIN 0.5 FIDELITY 98%'
    """
    statements = parse_all(text)
    if not statements:
        raise SqlError("there is no statement here")
    if len(statements) > 1:
        line, column = line_and_column(text, statements[1].start)
        raise SqlError("one statement was expected, here begins a second one", line=line, column=column)
    return statements[0]


def parse_all(text: str) -> tuple[ParsedStatement, ...]:
    """Read statements separated by semicolons; empty ones do not count.

    >>> [statement.sql() for statement in parse_all("SHOW TABLES; drop table if exists T;")]
    ['SHOW TABLES', 'DROP TABLE IF EXISTS T']
    """
    if len(text) > LONGEST_SCRIPT:
        raise SqlError(f"the text has {len(text)} characters, the most is {LONGEST_SCRIPT}; send it in parts")
    return tuple(_statement(tokens, text) for tokens in _split(_tokens(text)))


def _tokens(text: str) -> list[Token]:
    tokenizer = DIALECT.tokenizer()
    try:
        return tokenizer.tokenize(text)
    except TokenError as error:
        # The only token that can be wrong is one without an end; it began where the tokenizer last began.
        line, column = line_and_column(text, tokenizer._core._start)
        raise SqlError("a quote or comment that begins here is never closed", line=line, column=column) from error


def _split(tokens: list[Token]) -> Iterator[list[Token]]:
    statement: list[Token] = []
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            statement.append(token)
        elif statement:
            yield statement
            statement = []
    if statement:
        yield statement


def _statement(tokens: list[Token], text: str) -> ParsedStatement:
    start = tokens[0].start
    _check_size(tokens, text)
    with reading(Text(text, start)):
        tree = _tree(tokens, text)
        normal = write(tree)
    _check_faithful(tree, normal, Text(text, start))
    return ParsedStatement(tree, normal, text, start)


def _tree(tokens: list[Token], text: str) -> exp.Expr:
    trees = DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
    if len(trees) != 1 or trees[0] is None:
        raise ParseError("it is no statement")
    return trees[0]


def _check_faithful(tree: exp.Expr, normal: str, text: Text) -> None:
    """Refuse what does not come back from its own text: then that text would not say what was asked.

    sqlglot reads some mistakes generously (`FROM FROM t`) and writes them as something else; and what is stored,
    sent or run later is the text.
    """
    shown = normal if len(normal) <= 200 else normal[:200] + "…"
    message = f"this is a form that is not kept as it is written; if it means {shown!r}, write it so"
    try:
        again = _tree(_tokens(normal), normal)
        if again == tree and write(again) == normal:
            return
    except Exception as error:
        raise text.error(message) from error
    raise text.error(message)


def write(tree: exp.Expr) -> str:
    """The text of a tree in our dialect."""
    return DIALECT.generate(tree, comments=False, unsupported_level=ErrorLevel.RAISE)


@contextmanager
def reading(text: Text) -> Iterator[None]:
    """Turn whatever sqlglot raises into a `SqlError` with a place.

    sqlglot raises its own errors, and for nonsense that its grammar happens to allow also TypeError, ValueError
    and the like: a text from outside must never end in one of those, so all are caught around calls of sqlglot.
    """
    try:
        yield
    except Misfit as error:
        line, column = line_and_column(text.text, error.offset)
        raise SqlError(error.message, line=line, column=column) from error
    except SqlError:
        raise
    except (AlgebraError, SchemaError) as error:
        raise text.error(str(error)) from error
    except Tangled as error:
        raise text.error("the statement is too tangled to read; write it with fewer brackets") from error
    except RecursionError as error:
        raise text.error("the statement is nested too deeply; write it with fewer brackets") from error
    except SqlglotError as error:
        raise text.error(f"the statement cannot be read: {_first_line(error)}") from error
    except Exception as error:
        raise text.error(f"the statement cannot be read ({type(error).__name__})") from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _check_size(tokens: list[Token], text: str) -> None:
    def fail(message: str, token: Token) -> None:
        line, column = line_and_column(text, token.start)
        raise SqlError(message, line=line, column=column)

    length = tokens[-1].end + 1 - tokens[0].start
    if length > LONGEST_STATEMENT:
        fail(f"the statement has {length} characters, the most is {LONGEST_STATEMENT}", tokens[0])
    if len(tokens) > MOST_TOKENS:
        fail(f"the statement has {len(tokens)} words and signs, the most is {MOST_TOKENS}", tokens[0])
    depth = 0
    for token in tokens:
        if token.token_type in _OPENING:
            depth += 1
            if depth > DEEPEST_NESTING:
                fail(f"brackets are nested more than {DEEPEST_NESTING} deep; write it with fewer", token)
        elif token.token_type in _CLOSING:
            depth = max(0, depth - 1)
