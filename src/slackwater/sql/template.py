"""Statement templates: subscriptions that differ in their constants and their name alone are parsed once.

Design
    The *shape* of a text is the text with a mark in the place of each constant and of the subscription's name. A
    template is the syntax tree of a shape and its normal form in pieces: a text of that shape is the tree with its own
    constants put in. It is bound as any other tree, so whatever depends on a constant is decided by the binder.

    That is exact because of what is left to the parser. A shape is made of texts in which each constant is a token by
    itself to every reader: whole numbers, decimals, numbers with an exponent (each a mark of its own) and strings
    without an escape. Comments, escapes, letters beyond ASCII outside of strings, and strings behind a word, as in
    TIMESTAMP '…', which the parser may look into, have no shape or are part of it. A template is made of a *probe*,
    the statement with constants that occur nowhere else in it, which shows where each stands in the tree and in the
    normal form; and it has to give back the tree and the text of the statement it was learned from.

    A template is learned when its shape is seen for the second time, as it costs one more parse. While it is in use it
    belongs to its user alone, because the tree is changed in place.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp

from slackwater.core.errors import SlackwaterError
from slackwater.sql import nodes
from slackwater.sql.dialect import SlackwaterTokenizer
from slackwater.sql.parse import LONGEST_STATEMENT, ParsedStatement, parse, write

MOST_TOKENS = 32_768
"""Words, signs and constants of all shapes that are kept; the shape that was used longest ago goes first."""
LARGEST = 8_192
"""Those of one shape."""
_MOST_SEEN = 4_096

_TOKENS = re.compile(
    r"""  "[^"\\\x00-\x1f]*"
        | '[^'\\\x00-\x1f]*'
        | [A-Za-z_][A-Za-z_0-9]*
        | [0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?
        | [ \t\r\n]+
        | . """,
    re.VERBOSE | re.DOTALL,
)
_NAMED = re.compile(r"[ \t\r\n]*SUBSCRIBE[ \t\r\n]+([A-Za-z_][A-Za-z_0-9]*)[ \t\r\n]+AS(?![A-Za-z_0-9])", re.IGNORECASE)
_SIGNS = frozenset("(),*=<>+-/%;!.")
_PAIRS = frozenset({"--", "/*", "*/", "//"})
_DIGITS = frozenset("0123456789")
_WORDS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
_BEFORE_STRINGS = frozenset({"AND", "BETWEEN", "OR"})
"""Words behind which a string is a constant and no part of what the word means."""
_WHOLE, _DECIMAL, _EXPONENT, _STRING, _NAME = "\0i", "\0d", "\0e", "\0s", "\0n"


@dataclass(frozen=True, slots=True)
class StatementShape:
    """A text with marks in the places of its constants, and these as they are written."""

    marked: str
    constants: tuple[str, ...]
    name: str | None
    size: int
    """Number of its words, signs and constants."""


def shape_of(text: str) -> StatementShape | None:
    """The shape of a text; None for one that a parser has to look at.

    >>> shape_of("SUBSCRIBE hot AS SELECT item FROM prices WHERE price > 5.5 AND room = 'a'").constants
    ('5.5', "'a'")
    >>> shape_of("SELECT 1 -- one") is None
    True
    """
    name, start = None, 0
    pieces: list[str] = []
    found = _NAMED.match(text)
    if found is not None and found[1].upper() not in SlackwaterTokenizer.KEYWORDS:
        name, start = found[1], found.end(1)
        pieces += (text[: found.start(1)], _NAME)
    constants: list[str] = []
    tight = name is not None
    """True behind a token that another word or constant would run into."""
    before, last = "", ""
    tokens = _TOKENS.findall(text, start)
    for token in tokens:
        first = token[0]
        if first in _DIGITS:
            if tight or before == ".":
                return None
            constants.append(token)
            pieces.append(_WHOLE if token.isdigit() else _DECIMAL if "e" not in token.lower() else _EXPONENT)
            tight = True
        elif first in _WORDS:
            if tight:
                return None
            pieces.append(token)
            tight = True
        elif first in " \t\r\n":
            pieces.append(token)
            tight, before = False, token
            continue
        elif first in _SIGNS:
            if (first == "." and before[-1:] in _DIGITS) or before + first in _PAIRS:
                return None
            pieces.append(token)
            tight = False
        elif len(token) > 1 and not tight:
            if first == "'" and last[:1] == "'":
                return None
            if first == "'" and (last[:1] not in _WORDS or last.upper() in _BEFORE_STRINGS):
                constants.append(token)
                pieces.append(_STRING)
            else:
                pieces.append(token)
            tight = True
        else:
            return None
        before = last = token
    return StatementShape("".join(pieces), tuple(constants), name, len(tokens))


@dataclass(frozen=True, slots=True)
class FilledTemplate:
    """A statement out of a template: `text` is its normal form without the name. Valid inside `filled` alone."""

    parsed: ParsedStatement
    text: str


class _Template:
    """A tree, its constants in the order of the text, and the normal form around them."""

    def __init__(
        self, tree: nodes.Subscribe, places: list[exp.Literal], pieces: Sequence[str], start: int, size: int
    ) -> None:
        self.size = size
        self._tree = tree
        self._places = places
        self._pieces = pieces
        self._start = start

    def filled(self, shape: StatementShape, source: str) -> FilledTemplate:
        """The statement with the constants and the name of a text of this shape."""
        for place, constant in zip(self._places, shape.constants, strict=True):
            place.set("this", constant[1:-1] if constant[0] == "'" else constant)
        if shape.name is not None:
            self._tree.args["alias"].set("this", shape.name)
        parts = [""] * (2 * len(shape.constants) + 1)
        parts[::2], parts[1::2] = self._pieces, shape.constants
        text = "".join(parts)
        normal = text if shape.name is None else _with_name(text, shape.name)
        return FilledTemplate(ParsedStatement(self._tree, normal, source, self._start), text)


class StatementTemplates:
    """The templates of the shapes seen most lately; for any threads."""

    def __init__(self) -> None:
        self._kept: dict[str, _Template] = {}
        self._read: tuple[str, StatementShape | None] = "", None
        """The text that was read last, and its shape: it is asked for before the statement is."""
        self._seen: set[int] = set()
        """Hashes of shapes that were seen once."""

    def __len__(self) -> int:
        return len(self._kept)

    @contextmanager
    def filled(self, text: str) -> Iterator[FilledTemplate | None]:
        """The statement that a text is, where its shape is known; its tree is the caller's until the end."""
        shape = self._shape(text)
        # Taken out while it is in use: another thread finds none, and parses.
        template = None if shape is None else self._kept.pop(shape.marked, None)
        if shape is None or template is None:
            yield None
            return
        try:
            yield template.filled(shape, text)
        finally:
            self._kept[shape.marked] = template

    def knows(self, text: str) -> bool:
        """True if a text is of a shape that is kept."""
        shape = self._shape(text)
        return shape is not None and shape.marked in self._kept

    def _shape(self, text: str) -> StatementShape | None:
        read, shape = self._read
        if read != text:
            shape = shape_of(text) if len(text) <= LONGEST_STATEMENT else None
            self._read = text, shape
        return shape

    def learn(self, text: str, parsed: ParsedStatement) -> None:
        """Keep the shape of a subscription that was parsed, if it was seen before."""
        shape = self._shape(text)
        if shape is None or shape.size > LARGEST or shape.marked in self._kept:
            return
        key = hash(shape.marked)
        if key not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen.add(key)
            return
        template = _learned(shape, text, parsed)
        if template is None:
            return
        self._kept[shape.marked] = template
        while len(self._kept) > 1 and sum(one.size for one in list(self._kept.values())) > MOST_TOKENS:
            self._kept.pop(next(iter(list(self._kept))), None)


def _learned(shape: StatementShape, text: str, parsed: ParsedStatement) -> _Template | None:
    """The template of a shape, if it gives back the statement that it is learned from."""
    if not isinstance(parsed.tree, nodes.Subscribe):
        return None
    probes = [_probe(constant, place) for place, constant in enumerate(shape.constants)]
    name = None if shape.name is None else f"probe_{len(text)}_name"
    try:
        probe = parse(_with_constants(shape, probes, name))
    except SlackwaterError:
        return None
    assert isinstance(probe.tree, nodes.Subscribe)
    places = _places(probe.tree, probes)
    pieces = _pieces(_without_name(probe.tree), probes)
    if places is None or pieces is None:
        return None
    template = _Template(probe.tree, places, pieces, parsed.start, shape.size)
    again = template.filled(shape, text)
    same = again.parsed.tree == parsed.tree and again.parsed.normal == parsed.normal
    return template if same and again.text == _without_name(parsed.tree) else None


def _probe(constant: str, place: int) -> str:
    """A constant of the same class that occurs nowhere else in the probe."""
    if constant[0] == "'":
        return f"'probe {place} of it'"
    if constant.isdigit():
        return str(987_650_000_000 + place)
    whole = f"{76_540_000_000 + place}.5"
    return whole if "e" not in constant.lower() else f"{65_430_000_000 + place}.5e3"


def _with_constants(shape: StatementShape, constants: Sequence[str], name: str | None) -> str:
    """The text of a shape with other constants."""
    given = iter(constants)
    return re.sub("\0(.)", lambda mark: str(name) if mark[1] == "n" else next(given), shape.marked)


def _places(tree: nodes.Subscribe, probes: Sequence[str]) -> list[exp.Literal] | None:
    """The node of each probe; None unless each is one node."""
    numbered = {probe: place for place, probe in enumerate(probes)}
    found: dict[int, exp.Literal] = {}
    for node in tree.find_all(exp.Literal):
        place = numbered.get(f"'{node.this}'" if node.is_string else str(node.this))
        if place is not None:
            if place in found:
                return None
            found[place] = node
    return [found[place] for place in range(len(probes))] if len(found) == len(probes) else None


def _pieces(normal: str, probes: Sequence[str]) -> list[str] | None:
    """The normal form around the probes; None unless each stands in it once, and in the same order."""
    pieces = []
    for probe in probes:
        piece, found, normal = normal.partition(probe)
        if not found or probe in normal:
            return None
        pieces.append(piece)
    return [*pieces, normal]


def _without_name(tree: nodes.Subscribe) -> str:
    nameless = tree.copy()
    nameless.set("alias", None)
    return write(nameless)


def _with_name(text: str, name: str) -> str:
    return f"SUBSCRIBE {name} AS{text.removeprefix('SUBSCRIBE')}"
