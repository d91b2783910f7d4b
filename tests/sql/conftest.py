"""The tables that the tests of this room speak of."""

from pathlib import Path

import pytest

from slackwater.core import CreateSource, CreateTable
from slackwater.sql import Catalog, bind, parse_all

FIXTURES = Path(__file__).parent / "fixtures"


def load_catalog() -> Catalog:
    catalog = Catalog(subscriptions=("old",))
    for parsed in parse_all((FIXTURES / "catalog.sql").read_text(encoding="utf-8")):
        match bind(parsed, catalog):
            case CreateTable(schema):
                catalog = Catalog((*catalog.tables, schema), catalog.sources, catalog.subscriptions)
            case CreateSource() as source:
                catalog = Catalog(catalog.tables, (*catalog.sources, source), catalog.subscriptions)
            case other:
                raise AssertionError(f"the catalog of the tests holds definitions, not {other}")
    return catalog


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FIXTURES
