"""Parsing: every statement round-trips, our words stay free, limits hold, places are right."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

from slackwater.core import NotSupported, SqlError
from slackwater.sql import Catalog, Slackwater, bind, nodes, parse, parse_all
from slackwater.sql.parse import DEEPEST_NESTING, LONGEST_SCRIPT, LONGEST_STATEMENT
from slackwater.sql.place import line_and_column

FIXTURES = Path(__file__).parent / "fixtures"
STATEMENTS = parse_all((FIXTURES / "statements.sql").read_text(encoding="utf-8"))
REFUSALS: list[dict[str, Any]] = tomllib.loads((FIXTURES / "refusals.toml").read_text(encoding="utf-8"))["refusal"]


@pytest.mark.parametrize("text", [parsed.sql() for parsed in STATEMENTS])
def test_every_statement_round_trips(text: str) -> None:
    once = parse(text)
    assert once.sql() == text
    assert parse(once.sql()).tree == once.tree
    assert once.tree.sql(dialect=Slackwater) == text


@pytest.mark.parametrize("text", [parsed.sql() for parsed in STATEMENTS])
def test_layout_case_and_comments_do_not_matter(text: str) -> None:
    spread = text.replace(" ", "\n  ") if "'" not in text and '"' not in text else text
    assert parse(f"/* before */ {spread} -- after\n;").tree == parse(text).tree


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str(refusal["sql"])[:60])
def test_refusals_say_what_and_where(refusal: dict[str, Any], catalog: Catalog) -> None:
    with pytest.raises(SqlError) as caught:
        bind(parse(refusal["sql"]), catalog)
    assert refusal["message"] in caught.value.message
    assert [caught.value.line, caught.value.column] == refusal["at"]


def test_a_place_is_counted_in_the_whole_script() -> None:
    with pytest.raises(SqlError) as caught:
        parse_all("SHOW TABLES;\r\nSHOW SOURCES;\r\n\tSHOW NOTHING;")
    assert (caught.value.line, caught.value.column) == (3, 7)


@pytest.mark.parametrize(
    ("text", "offset", "place"),
    [
        ("", 0, (1, 1)),
        ("ab", 2, (1, 3)),
        ("a\nb", 2, (2, 1)),
        ("a\r\nb", 3, (2, 1)),
        ("a\rb", 2, (2, 1)),
        ("é\n€x", 3, (2, 2)),
    ],
)
def test_line_and_column(text: str, offset: int, place: tuple[int, int]) -> None:
    assert line_and_column(text, offset) == place


# ---- our words are free -------------------------------------------------------------------------------------


def test_within_is_a_clause_only_at_the_end_and_with_a_number() -> None:
    tree = parse("SUBSCRIBE SELECT SUM(x) FROM quotes WITHIN 2400").tree
    assert tree.args["within"].this.name == "2400"
    assert tree.this.args["from_"].this.alias == ""
    tree = parse("SUBSCRIBE SELECT within FROM t within WHERE within > 3 WITHIN 5").tree
    assert tree.args["within"].this.name == "5"
    assert tree.this.args["from_"].this.alias == "within"
    assert [column.name for column in tree.find_all(exp.Column)] == ["within", "within"]
    tree = parse("SUBSCRIBE SELECT a FROM t WHERE x > within - 5").tree
    assert tree.args.get("within") is None
    tree = parse('SUBSCRIBE SELECT a FROM t "WITHIN"').tree
    assert tree.this.args["from_"].this.alias == "WITHIN"


def test_clauses_in_any_order() -> None:
    clauses = ["WITHIN 5", "FIDELITY 98%", "EVERY 2 HOURS", "MEMORY 7 ROWS"]
    expected = parse(f"SUBSCRIBE SELECT a FROM t {' '.join(clauses)}")
    assert parse(f"SUBSCRIBE SELECT a FROM t {' '.join(reversed(clauses))}") == expected
    assert isinstance(expected.tree, nodes.Subscribe)
    assert {part for part, value in expected.tree.args.items() if value} == {
        "this",
        "within",
        "fidelity",
        "every",
        "memory",
    }


def test_fidelity_as_share_and_percent() -> None:
    assert parse("SUBSCRIBE SELECT a FROM t WITHIN 1 FIDELITY 98 %").tree.args["fidelity"].args["percent"]
    assert not parse("SUBSCRIBE SELECT a FROM t WITHIN 1 FIDELITY 0.98").tree.args["fidelity"].args["percent"]


@pytest.mark.parametrize(
    "word",
    ["within", "fidelity", "every", "memory", "rows", "fresh", "event", "source", "subscribe", "show", "explain"],
)
def test_our_words_are_names(word: str) -> None:
    for text in (
        f"SELECT {word} FROM {word}",
        f"SELECT a AS {word} FROM t AS {word} WHERE {word}.{word} > 3",
        f"SELECT a {word} FROM t {word}",
        f"SUBSCRIBE {word} AS SELECT {word} FROM {word} {word} WHERE {word} = 1",
        f"SUBSCRIBE SELECT SUM({word}) FROM {word} WITHIN 5 FIDELITY 98%",
        f"SUBSCRIBE SELECT {word} FROM t JOIN {word} USING ({word}) MEMORY 5 ROWS",
        f"CREATE TABLE {word} ({word} BIGINT PRIMARY KEY, x TIMESTAMP) EVENT TIME x",
        f"CREATE SOURCE {word} FOR {word} FROM FILE 'x' WITH ({word} = 1)",
        f"CREATE MATERIALIZED VIEW {word} AS SELECT {word} FROM {word} FRESH IN 3 MINUTES",
        f"DROP SUBSCRIPTION {word}",
        f"EXPLAIN SELECT {word} FROM {word}",
    ):
        assert parse(parse(text).sql()).tree == parse(text).tree


# ---- limits -------------------------------------------------------------------------------------------------


def test_statements_and_scripts_have_a_longest_length() -> None:
    fits = "SELECT '" + "x" * (LONGEST_STATEMENT - 9) + "'"
    assert len(fits) == LONGEST_STATEMENT
    assert parse(fits).sql() == fits
    with pytest.raises(SqlError, match="65537 characters"):
        parse(fits[:-1] + "x'")
    assert len(parse_all((fits + ";") * 3)) == 3
    with pytest.raises(SqlError, match="send it in parts"):
        parse_all(" " * (LONGEST_SCRIPT + 1))
    with pytest.raises(SqlError, match="words and signs"):
        parse("SELECT " + "1," * 20_000 + "1")


def test_brackets_have_a_deepest_nesting() -> None:
    deep = "SELECT " + "(" * DEEPEST_NESTING + "1" + ")" * DEEPEST_NESTING
    assert parse(deep).sql() == deep
    with pytest.raises(SqlError, match="nested") as caught:
        parse("SELECT " + "(" * (DEEPEST_NESTING + 1) + "1" + ")" * (DEEPEST_NESTING + 1))
    assert caught.value.column == 8 + DEEPEST_NESTING


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "NOT " * 5000 + "1",
        "SELECT " + "- " * 5000 + "1",
        "SELECT * FROM " + "a JOIN " * 3000 + "b",
        "SELECT " + "interval " * 1000 + "1",
        "SELECT x::" + "STRUCT<a " * 100,
        "SELECT CAST(x AS " + "ARRAY<" * 1000,
        "SELECT " + "[" * 5000,
        "SELECT " + "{'a':" * DEEPEST_NESTING,
        "/*" * 30_000,
        "'" * 60_001,
        "EXPLAIN " * 5000,
        "SUBSCRIBE " * 5000,
        "SELECT " + "case when " * 20 + "1",
        "SELECT " + "a.b." * 5000 + "c",
        ";" * 60_000 + "x",
    ],
    ids=lambda text: text[:30],
)
def test_deep_and_long_nonsense_is_a_sql_error(text: str) -> None:
    with pytest.raises(SqlError):
        parse(text)


@pytest.mark.parametrize("word", ["DECIMAL(", "STRUCT("])
def test_where_the_parser_would_try_for_ever_it_stops(word: str) -> None:
    with pytest.raises(SqlError, match="too tangled"):
        parse("SELECT " + word * DEEPEST_NESTING + "1" + ")" * DEEPEST_NESTING)


def test_long_chains(catalog: Catalog) -> None:
    sums = "SELECT " + "1 + " * 4000 + "1"
    assert parse(sums).sql() == sums
    bind(parse("SELECT * FROM Cars WHERE " + "id = 1 OR " * 400 + "id = 2"), catalog)
    with pytest.raises(SqlError, match="use IN for long lists of OR"):
        bind(parse("SELECT * FROM Cars WHERE " + "id = 1 OR " * 3000 + "id = 2"), catalog)
    with pytest.raises(SqlError, match="too tangled"):
        bind(parse("SELECT 1" + " UNION SELECT 1" * 1500), catalog)


def test_empty_statements_do_not_count() -> None:
    assert parse_all("") == parse_all(" ;; -- nothing\n ; ") == ()
    with pytest.raises(SqlError, match="there is no statement here"):
        parse(" ; ")
    with pytest.raises(SqlError, match="here begins a second one") as caught:
        parse("SHOW TABLES;\n SHOW TABLES")
    assert (caught.value.line, caught.value.column) == (2, 2)


def test_not_supported_is_told_apart(catalog: Catalog) -> None:
    with pytest.raises(NotSupported):
        bind(parse("SUBSCRIBE SELECT * FROM Cars EVERY 1 HOUR"), catalog)
    with pytest.raises(SqlError) as caught:
        bind(parse("SUBSCRIBE SELECT * FROM nothing"), catalog)
    assert not isinstance(caught.value, NotSupported)
