"""Clause recognition: trailing clauses such as WITHIN and EVERY, known by the shape of their tokens.

None of our words is reserved. `WITHIN` is the clause where a number follows it and nothing but other clauses
follows that; anywhere else it is a name like any other. So clauses are read off the *end* of the statement's
tokens, before the query in front of them is parsed: in `FROM quotes WITHIN 2400` the parser of tables never
sees `WITHIN` and cannot take it for an alias, and in `WHERE within > 3 WITHIN 5` only the second one is ours.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from slackwater.sql.durations import UNITS

NUMBER = "number"
UNIT = "unit"

_QUOTED = frozenset({TokenType.IDENTIFIER, TokenType.STRING, TokenType.NATIONAL_STRING})


@dataclass(frozen=True, slots=True)
class ClauseShape:
    """The words of a clause in order: fixed ones in capitals, `NUMBER` or `UNIT` where those stand."""

    word: str
    parts: tuple[str, ...]


WITHIN = ClauseShape("WITHIN", ("WITHIN", NUMBER))
FIDELITY = ClauseShape("FIDELITY", ("FIDELITY", NUMBER))
FIDELITY_PERCENT = ClauseShape("FIDELITY", ("FIDELITY", NUMBER, "%"))
EVERY = ClauseShape("EVERY", ("EVERY", NUMBER, UNIT))
MEMORY = ClauseShape("MEMORY", ("MEMORY", NUMBER, "ROWS"))
FRESH_IN = ClauseShape("FRESH", ("FRESH", "IN", NUMBER, UNIT))

OF_SUBSCRIBE = (WITHIN, FIDELITY, FIDELITY_PERCENT, EVERY, MEMORY)
OF_VIEW = (FRESH_IN,)

ADVICE = {
    "WITHIN": "WITHIN takes a number of 0 or more and stands at the end of a SUBSCRIBE statement",
    "FIDELITY": "FIDELITY takes a share such as 98% and stands after WITHIN",
    "EVERY": "EVERY takes a number and a unit, such as 1 HOUR, and stands at the end of a SUBSCRIBE statement",
    "MEMORY": "MEMORY takes a number and ROWS, and stands at the end of a SUBSCRIBE statement",
    "FRESH": "FRESH IN takes a number and a unit, such as 12 SECONDS, and stands at the end of a view",
}
"""Advice for a clause keyword at a place where the parser fails."""


def ending(tokens: Sequence[Token], shapes: Sequence[ClauseShape]) -> int:
    """Where the clauses at the end of these tokens begin; the number of tokens where there are none."""
    end = len(tokens)
    while True:
        lengths = [length for shape in shapes if (length := _length(tokens, end, shape))]
        if not lengths:
            return end
        end -= max(lengths)


def _length(tokens: Sequence[Token], end: int, shape: ClauseShape) -> int:
    """How many tokens before `end` make up a clause of this shape; 0 where they do not."""
    at = end
    for part in reversed(shape.parts):
        if part is NUMBER:
            if at < 1 or tokens[at - 1].token_type is not TokenType.NUMBER:
                return 0
            at -= 1
            if at >= 1 and tokens[at - 1].token_type is TokenType.DOT:  # .5
                at -= 1
        else:
            if at < 1 or not is_word(tokens[at - 1], UNITS if part is UNIT else (part,)):
                return 0
            at -= 1
    # The clause follows something: a name or a number in front of a dot would make it part of an expression.
    if at >= 1 and tokens[at - 1].token_type is TokenType.DOT:
        return 0
    return end - at


def is_word(token: Token, words: Container[str]) -> bool:
    """Whether the token is one of these words, unquoted."""
    return token.token_type not in _QUOTED and token.text.upper() in words
