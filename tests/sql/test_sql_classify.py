"""Kinds of standing query told apart by their shape: examples of each, and what becomes of them."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from slackwater.core import NotSupported
from slackwater.kinds.registry import KINDS, classify
from slackwater.sql import Catalog, bind, parse, to_sql
from slackwater.sql.subscription import REFUSED

EXAMPLES: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "fixtures" / "kinds.toml").read_text(encoding="utf-8")
)["example"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["sql"])[:60])
def test_example(example: dict[str, Any], catalog: Catalog) -> None:
    parsed = parse(example["sql"])
    refused = next((one.name for one in REFUSED if one.matches(parsed.tree)), None)
    kind = classify(parsed.tree)
    assert (refused or (kind.name if kind else "")) == example["kind"]
    if "refused" in example:
        with pytest.raises(NotSupported) as caught:
            bind(parsed, catalog)
        assert example["refused"] in caught.value.message
    else:
        statement = bind(parsed, catalog)
        assert to_sql(statement, catalog) == example["normal"]
        assert bind(parse(example["normal"]), catalog) == statement


def test_every_kind_has_an_example() -> None:
    shown = {example["kind"] for example in EXAMPLES}
    assert {refused.name for refused in REFUSED} <= shown
    # A cache is asked for by a text that is not SQL.
    assert {kind.name for kind in KINDS} - {"cache"} <= shown


def test_a_refusal_says_what_to_do_instead() -> None:
    assert all(";" in refused.sentence for refused in REFUSED)
