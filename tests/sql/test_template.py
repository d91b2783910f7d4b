"""Statements out of templates are what the parser and the binder make of them, whatever constants stand in them."""

import random
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.core import SlackwaterError
from slackwater.core.statement import Statement
from slackwater.sql import Catalog, bind, parse
from slackwater.sql.template import StatementTemplates, shape_of

FIXTURES = Path(__file__).parent / "fixtures"
STATEMENTS = [
    *(example["sql"] for example in tomllib.loads((FIXTURES / "kinds.toml").read_text())["example"]),
    *(refusal["sql"] for refusal in tomllib.loads((FIXTURES / "refusals.toml").read_text())["refusal"]),
    "SUBSCRIBE tech AS SELECT SUM(w * price) FROM quotes JOIN (VALUES ('IBM', 4234), ('MSFT', 4780)) AS p(symbol, w) "
    "USING (symbol) WITHIN 5.0 FIDELITY 98%",
    "SUBSCRIBE SELECT SUM(2 * w * Price / 4) FROM Cars JOIN (VALUES (1, 0.5), (-2, 1e3), (3, -7)) AS p(id, w) "
    "USING (id) WHERE price > 1 + 2 AND year <> 1999 WITHIN 5",
    "subscribe  select min(per)\nfrom stock join (values ('a', 'x'), ('b', 'y')) as p(name, exchange) "
    "using (name, exchange) where risk between 20 and 60.5;",
    "SUBSCRIBE SELECT id FROM sensors WHERE (celsius > 3 OR celsius < -1 OR floor = 2) AND NOT floor IN (3, 4, 3)",
    "SUBSCRIBE SELECT id FROM sensors WHERE seen > '2026-01-31 12:00:00Z' AND room BETWEEN 'a' AND 'b' AND ok",
    "SUBSCRIBE SELECT id FROM sensors WHERE seen > TIMESTAMP '2026-01-31 12:00:00Z' AND 1 < 2 AND 3 = floor",
    "SUBSCRIBE SELECT id FROM sensors WHERE room IS DISTINCT FROM 'a' OR floor = 1 OR floor = 2 OR floor = 3",
    'SUBSCRIBE SELECT "id" FROM "sensors" WHERE "floor" >= 1 AND "floor" < 9 AND "room" IN (\'a\', \'b\')',
    "SUBSCRIBE x AS SELECT t.id, u.id FROM unit u JOIN target t ON 3 >= u.pos - t.pos AND u.pos - t.pos > -5 "
    "WHERE speed > 2.5 AND t.worth BETWEEN 1 AND 9",
    "SUBSCRIBE SELECT id FROM sensors WHERE floor < 5 AND floor > 2 EVERY 1 HOUR",
    "SELECT id FROM sensors WHERE floor < 5",
]
WORDS = (FIXTURES / "words.txt").read_text(encoding="utf-8").split()
SIGNS = [
    ",",
    "(",
    ")",
    "=",
    "<",
    ">",
    "+",
    "-",
    "/",
    "*",
    "%",
    ";",
    ".",
    "--",
    "/*",
    "*/",
    "::",
    "'",
    '"',
    "\\",
    "$",
    "é",
]
WHOLE = ["0", "1", "2", "3", "5", "007", "98", "100", "101", "9223372036854775807", "9223372036854775808", "9" * 30]
DECIMAL = ["0.0", "0.5", "1.0", "2.50", "3.0", "99.9", "0.98", "9223372036854775807.0", "0." + "0" * 20 + "1"]
EXPONENT = ["1e3", "1E3", "1.5e-300", "2e308", "9e999", "5e0", "0e0"]
STRING = [
    "''",
    "'a'",
    "'b'",
    "'IBM'",
    "'é'",
    "'a\"b'",
    "'--'",
    "'2026-01-31 12:00:00Z'",
    "'2026-02-30 12:00:00Z'",
    "'5'",
]
NAMES = ["a", "Hot", "old", "within", "select", "t" * 300, "_9", "SUBSCRIBE"]


def varied(text: str, generator: random.Random) -> str:
    """The text with other constants of the same classes, sometimes of another, and another name."""

    def other(found: re.Match[str]) -> str:
        constant = found[0]
        if found[1] or generator.random() < 0.3:
            return constant
        if generator.random() < 0.03:
            return generator.choice([*WHOLE, *DECIMAL, *EXPONENT, *STRING, "NULL", "-1", ".5", "'it''s'"])
        if constant[0] == "'":
            return generator.choice(STRING)
        if "e" in constant.lower():
            return generator.choice(EXPONENT)
        return generator.choice(DECIMAL if "." in constant else WHOLE)

    text = re.sub(r"(\"[^\"]*\"|[A-Za-z_]\w*)|'[^']*'|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", other, text)
    return re.sub(r"(?<=SUBSCRIBE )\w+(?= AS SELECT)", lambda _: generator.choice(NAMES), text)


def anew(text: str, catalog: Catalog) -> tuple[Statement, str] | str:
    """What the parser and the binder say."""
    try:
        parsed = parse(text)
        return bind(parsed, catalog), parsed.normal
    except SlackwaterError as error:
        return str(error)


def out_of(templates: StatementTemplates, text: str, catalog: Catalog) -> tuple[Statement, str] | None:
    """What a template makes of it; None where there is none, or where it is refused."""
    with templates.filled(text) as filled:
        if filled is None:
            return None
        try:
            return bind(filled.parsed, catalog), filled.parsed.normal
        except SlackwaterError:
            return None


def test_a_template_gives_what_parsing_gives(catalog: Catalog) -> None:
    used: set[str] = set()
    for seed, text in enumerate(STATEMENTS):
        generator, templates = random.Random(seed), StatementTemplates()
        for variant in [text, text, text, *(varied(text, generator) for _ in range(9))]:
            found, right = out_of(templates, variant, catalog), anew(variant, catalog)
            if found is not None:
                assert found == right, variant
                used.add(text)
            if not isinstance(right, str):
                templates.learn(variant, parse(variant))
            elif templates.knows(variant):
                assert found is None, variant
    kinds = [text for text in STATEMENTS if not isinstance(anew(text, catalog), str) and "SUBSCRIBE" in text.upper()]
    assert used >= {text for text in kinds if shape_of(text) is not None and shape_of(text).constants}  # type: ignore[union-attr]
    assert len(used) > 15


def pieces() -> st.SearchStrategy[list[str]]:
    constants = st.sampled_from(
        [*WHOLE, *DECIMAL, *EXPONENT, *STRING, ".5", "5.", "0x1F", "1_000", "1a", "'it''s'", "-1"]
    )
    words = st.sampled_from([*WORDS, *SIGNS])
    space = st.sampled_from(["", " ", " ", "\n", "  "])
    return st.lists(st.one_of(constants, words, space), max_size=20)


@given(before=pieces(), after=pieces(), seed=st.integers(0, 2**16))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_stands_around_the_constants(catalog: Catalog, before: list[str], after: list[str], seed: int) -> None:
    generator, templates = random.Random(seed), StatementTemplates()
    base = "SUBSCRIBE SELECT id FROM sensors WHERE floor > 1 " + "".join(before) + " AND room = 'a' " + "".join(after)
    for _ in range(6):
        variant = varied(base, generator)
        found, right = out_of(templates, variant, catalog), anew(variant, catalog)
        assert found is None or found == right, variant
        if not isinstance(right, str):
            templates.learn(variant, parse(variant))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 -- one",
        "SELECT /* 1 */ 1",
        "SELECT 'it''s'",
        "SELECT 'a' 'b'",
        r"SELECT 'a\b'",
        "SELECT .5",
        "SELECT 5.",
        "SELECT 1a",
        "SELECT 0x1F",
        "SELECT N'a'",
        "SELECT é",
        "SELECT $1",
        "SELECT ?",
        "SELECT 'a",
        'SELECT "a',
        'SELECT "a""b"',
        "SELECT 1.2.3",
        "SELECT 5'a'",
        "SELECT " + "9" * 31,
        "SELECT a::TEXT",
    ],
)
def test_what_a_parser_has_to_look_at_has_no_shape(text: str) -> None:
    assert shape_of(text) is None


def test_classes_of_constants_and_words_are_part_of_the_shape() -> None:
    shapes = [
        "SUBSCRIBE SELECT a FROM t WHERE a > 5",
        "SUBSCRIBE SELECT a FROM t WHERE a > 5.0",
        "SUBSCRIBE SELECT a FROM t WHERE a > 5e0",
        "SUBSCRIBE SELECT a FROM t WHERE a > '5'",
        "SUBSCRIBE SELECT a FROM t WHERE a > -5",
        "SUBSCRIBE SELECT a FROM t WHERE a > NULL",
        "SUBSCRIBE SELECT a FROM t WHERE a >  5",
        "SUBSCRIBE SELECT b FROM t WHERE a > 5",
        "SUBSCRIBE x AS SELECT a FROM t WHERE a > 5",
        "SUBSCRIBE SELECT a FROM t WHERE a > TIMESTAMP '5'",
        "SUBSCRIBE SELECT a FROM t WHERE a > TIMESTAMP '6'",
        'SUBSCRIBE SELECT "5" FROM t WHERE a > 5',
        'SUBSCRIBE SELECT "6" FROM t WHERE a > 5',
    ]
    marked = {shape.marked for text in shapes if (shape := shape_of(text)) is not None}
    assert len(marked) == len(shapes)
    assert shape_of(shapes[0]).marked == shape_of(shapes[0].replace("5", "6")).marked  # type: ignore[union-attr]
    assert shape_of(shapes[8]).marked == shape_of(shapes[8].replace("x", "Hot")).marked  # type: ignore[union-attr]


def test_a_shape_is_learned_when_it_comes_again_and_belongs_to_one_user_at_a_time() -> None:
    templates = StatementTemplates()
    text = "SUBSCRIBE SELECT id FROM sensors WHERE floor > {}"
    for number, known in enumerate([False, False, True]):
        assert templates.knows(text.format(number)) is known
        templates.learn(text.format(number), parse(text.format(number)))
    with templates.filled(text.format(7)) as first, templates.filled(text.format(8)) as second:
        assert first is not None
        assert second is None
        assert first.parsed.normal == text.format(7)
    with templates.filled(text.format(8)) as second:
        assert second is not None


def test_the_shapes_used_longest_ago_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.sql.template.MOST_TOKENS", 100)
    monkeypatch.setattr("slackwater.sql.template.LARGEST", 40)
    templates = StatementTemplates()
    text = "SUBSCRIBE SELECT id AS c{} FROM sensors WHERE floor > 1"
    shape = shape_of(text.format(0))
    assert shape is not None
    for column in range(12):
        for _ in range(2):
            templates.learn(text.format(column), parse(text.format(column)))
        with templates.filled(text.format(0)) as first:
            assert first is not None
    assert len(templates) == 100 // shape.size
    assert not templates.knows(text.format(1))
    assert templates.knows(text.format(11))
    huge = f"SUBSCRIBE SELECT id FROM sensors WHERE id IN ({', '.join(['1'] * 40)})"
    for _ in range(3):
        templates.learn(huge, parse(huge))
    assert not templates.knows(huge)
