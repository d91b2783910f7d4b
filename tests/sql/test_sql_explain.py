"""EXPLAIN: the tree, as text and as JSON, and how later capabilities add to it."""

import json

from slackwater.sql import Catalog, Detail, ExplainTree, bind, explain, parse


def explained(text: str, catalog: Catalog) -> ExplainTree:
    return explain(bind(parse(text), catalog))


def test_subscription_as_text(catalog: Catalog) -> None:
    text = """EXPLAIN SUBSCRIBE hot AS SELECT AVG(celsius) FROM sensors
              WHERE room IN ('a', 'b') AND floor > 2 WITHIN 0.5 FIDELITY 98%"""
    assert explained(text, catalog).text().splitlines() == [
        "subscription",
        "  name: hot",
        "  └ aggregate",
        "      function: AVG",
        "      column: celsius",
        "      within: 0.5",
        "      fidelity: 98 %",
        "      └ rows",
        "          table: sensors",
        "          where: floor in [3, ∞) and room in {'a', 'b'}",
        "          boxes: 1",
    ]


def test_json_holds_the_same(catalog: Catalog) -> None:
    tree = json.loads(explained("SUBSCRIBE SELECT SUM(2 * price) FROM quotes WITHIN 3", catalog).json())
    (aggregate,) = tree["parts"]
    assert tree["name"] == "subscription"
    assert aggregate["details"]["scale"] == 2.0
    assert aggregate["details"]["fidelity"] == {"value": 100.0, "unit": "%"}
    assert aggregate["parts"][0]["details"]["where"] == ["everything"]


def test_other_statements(catalog: Catalog) -> None:
    assert explained("SHOW TABLES", catalog).name == "show tables"
    assert explained("DROP SOURCE feed", catalog).details[0] == Detail("name", "feed")
    table = explained("CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT)", catalog)
    assert Detail("columns", ("a BIGINT NOT NULL", "b TEXT")) in table.details
    source = explained("CREATE SOURCE s FOR quotes FROM FILE 'x' WITH (every = '90 seconds', kind = 'csv')", catalog)
    assert Detail("every", "90 seconds") in source.details
    assert source.parts == (ExplainTree("settings", (Detail("kind", "csv"),)),)
    select = explained("SELECT id FROM cars WHERE price < 3", catalog)
    assert [part.name for part in select.parts] == ["selection"]


def test_parts_can_be_added(catalog: Catalog) -> None:
    tree = explained("SUBSCRIBE q AS SELECT SUM(price) FROM quotes WITHIN 10", catalog)
    grown = tree.with_parts(ExplainTree("plan", (Detail("expected", 12.5, "messages/hour"),)))
    assert [part.name for part in grown.parts] == ["aggregate", "plan"]
    assert "expected: 12.5 messages/hour" in grown.text()


def test_many_boxes_are_cut_short(catalog: Catalog) -> None:
    numbers = ", ".join(str(3 * n) for n in range(30))
    text = explained(f"SUBSCRIBE SELECT * FROM sensors WHERE floor IN ({numbers})", catalog).text()
    assert "and 20 more" in text
    assert "boxes: 30" in text
