"""Each rule of the classification, by examples: what it says, its kind, and what becomes of it."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from slackwater.core import NotSupported
from slackwater.sql import Catalog, bind, parse, to_sql
from slackwater.sql.classify import RULES, Kind, classify
from slackwater.sql.standing import NOT_YET

EXAMPLES: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "fixtures" / "kinds.toml").read_text(encoding="utf-8")
)["example"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["sql"])[:60])
def test_example(example: dict[str, Any], catalog: Catalog) -> None:
    parsed = parse(example["sql"])
    kind = classify(parsed.tree)
    assert (kind.value if kind else "") == example["kind"]
    decided = next((rule.__name__ for rule in RULES if rule(parsed.tree) is not None), "")
    assert decided == example["rule"]
    if "refused" in example:
        with pytest.raises(NotSupported) as caught:
            bind(parsed, catalog)
        assert example["refused"] in caught.value.message
    else:
        statement = bind(parsed, catalog)
        assert to_sql(statement, catalog) == example["normal"]
        assert bind(parse(example["normal"]), catalog) == statement


def test_every_rule_and_kind_has_an_example() -> None:
    assert {rule.__name__ for rule in RULES} <= {example["rule"] for example in EXAMPLES}
    assert {kind.value for kind in Kind} <= {example["kind"] for example in EXAMPLES}


def test_every_kind_is_bound_or_refused_with_advice() -> None:
    assert set(Kind) - set(NOT_YET) == {Kind.SELECTION, Kind.AGGREGATE, Kind.BAND_JOIN, Kind.SELECT_JOIN}
    assert all(";" in sentence for sentence in NOT_YET.values()), "a refusal says what to do instead"
