"""SQL dialect: sqlglot's, with the statements and clauses of Slackwater."""

from typing import ClassVar

from sqlglot import tokens
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy
from sqlglot.tokenizer_core import TokenType

from slackwater.sql.generator import SlackwaterGenerator
from slackwater.sql.grammar import SlackwaterParser


class SlackwaterTokenizer(tokens.Tokenizer):
    """sqlglot's, with no commands that swallow the rest of a statement as text."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        word: kind
        for word, kind in tokens.Tokenizer.KEYWORDS.items()
        if kind not in (TokenType.COMMAND, TokenType.SHOW, TokenType.BLOCK_START, TokenType.BLOCK_END)
    }
    COMMANDS: ClassVar[set[TokenType]] = set()


class Slackwater(Dialect):
    """The dialect; sqlglot also knows it by the name `slackwater`."""

    # Names match whatever their case, quoted or not; quotes are for odd characters.
    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_INSENSITIVE

    Tokenizer = SlackwaterTokenizer
    Parser = SlackwaterParser
    Generator = SlackwaterGenerator
