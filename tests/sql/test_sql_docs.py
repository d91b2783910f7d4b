"""The page about the language cannot lie: its examples are read and bound, its refusals happen as it says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.core import CreateSource, CreateTable, Drop, SqlError, Statement, Subscribe
from slackwater.sql import Catalog, bind, explain, parse

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
REFUSED = "-- refused: "


def examples() -> Iterator[tuple[str, str | None]]:
    """The statements of the page in order, each with the sentence it is refused with, if any."""
    inside = False
    block: list[str] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line == "```sql":
            inside, block = True, []
        elif line == "```" and inside:
            inside = False
            for chunk in "\n".join(block).split("\n\n"):
                first, _, rest = chunk.partition("\n")
                yield (rest, first.removeprefix(REFUSED)) if first.startswith(REFUSED) else (chunk, None)
        elif inside:
            block.append(line)


def after(statement: Statement, catalog: Catalog) -> Catalog:
    match statement:
        case CreateTable(schema):
            return Catalog((*catalog.tables, schema), catalog.sources, catalog.subscriptions)
        case CreateSource():
            return Catalog(catalog.tables, (*catalog.sources, statement), catalog.subscriptions)
        case Subscribe(_, str(name)):
            return Catalog(catalog.tables, catalog.sources, (*catalog.subscriptions, name))
        case Drop():
            return catalog  # the page ends with these
    return catalog


def test_examples_do_what_the_page_says() -> None:
    catalog = Catalog()
    bound = refused = 0
    for text, sentence in examples():
        if sentence is None:
            statement = bind(parse(text), catalog)
            assert explain(statement).text()
            catalog = after(statement, catalog)
            bound += 1
        else:
            with pytest.raises(SqlError) as caught:
                bind(parse(text), catalog)
            assert sentence in caught.value.message, text
            refused += 1
    assert bound > 20
    assert refused > 20
