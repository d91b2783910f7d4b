"""Any text gives a statement or a SqlError with a place inside the text, and nothing else."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.core import SlackwaterError, SqlError
from slackwater.sql import Catalog, bind, explain, parse, parse_all, to_sql

FIXTURES = Path(__file__).parent / "fixtures"
STATEMENTS = [parsed.sql() for parsed in parse_all((FIXTURES / "statements.sql").read_text(encoding="utf-8"))]

WORDS = (FIXTURES / "words.txt").read_text(encoding="utf-8").split()

PIECES = [
    "SUBSCRIBE SELECT * FROM sensors WHERE",
    "SUBSCRIBE SELECT SUM(celsius) FROM sensors WHERE",
    "SUBSCRIBE SELECT",
    "SELECT * FROM sensors WHERE",
    "SELECT",
    "FROM sensors",
    "JOIN (VALUES (1, 2), (2, 3)) AS p(id, w) USING (id)",
    "JOIN Cars USING (id)",
    "WITHIN 5",
    "FIDELITY 98%",
    "EVERY 1 HOUR",
    "MEMORY 10 ROWS",
    "CREATE TABLE t (",
    "PRIMARY KEY",
    "CREATE SOURCE s FOR sensors FROM FILE 'x' WITH (",
    "celsius BETWEEN 1 AND",
    "room IN ('a', NULL)",
    "id <",
    "ok IS NOT TRUE",
    "(SELECT 1)",
]


def texts() -> st.SearchStrategy[str]:
    noise = st.text(max_size=60)
    ours = st.text(alphabet="selctfromwhin()*,;='\"%-/\\\n\r\t 0123456789.$[]{}", max_size=80)
    soup = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)
    thick = st.lists(st.sampled_from([*PIECES, *WORDS]), min_size=1, max_size=12).map(" ".join)
    return st.one_of(noise, ours, soup, thick, mutated(), mutated())


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A statement of the fixtures with some of its words lost, doubled, swapped or replaced."""
    words = draw(st.sampled_from(STATEMENTS)).split(" ")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words) - 1))
        match draw(st.integers(0, 4)):
            case 0 if len(words) > 1:
                del words[at]
            case 1:
                words.insert(at, words[at])
            case 2:
                other = draw(st.integers(0, len(words) - 1))
                words[at], words[other] = words[other], words[at]
            case 3:
                words[at] = draw(st.sampled_from(WORDS))
            case _:
                cut = draw(st.integers(0, len(words[at])))
                words[at] = words[at][:cut] + draw(st.text(max_size=3)) + words[at][cut:]
    return " ".join(words)


def check_total(text: str, catalog: Catalog) -> None:
    try:
        parsed = parse_all(text)
    except SqlError as error:
        check_place(error, text)
        return
    for each in parsed:
        again = parse(each.sql())
        assert again.tree == each.tree, each.sql()
        assert again.sql() == each.sql()
        try:
            statement = bind(each, catalog)
        except SqlError as error:
            check_place(error, text)
            check_no_stumble(error)
            continue
        assert explain(statement).text()
        assert explain(statement).json()
        written = to_sql(statement, catalog)
        assert bind(parse(written), catalog) == statement, written


def check_place(error: SqlError, text: str) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert 1 <= error.line <= len(lines)
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    assert error.message
    assert isinstance(error, SlackwaterError)


def check_no_stumble(error: SqlError) -> None:
    """What sqlglot cannot digest is refused, but our own code must not stumble over it."""
    assert "cannot be read (" not in error.message, repr(error.__cause__)


@given(texts())
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_gives_a_statement_or_a_sql_error(catalog: Catalog, text: str) -> None:
    check_total(text, catalog)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@given(texts())
@settings(max_examples=100_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_hundred_thousand_texts(catalog: Catalog, text: str) -> None:
    check_total(text, catalog)
