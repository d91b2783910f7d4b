"""Texts are bound once, refusals remembered, and nothing of it outlives a change of the tables."""

import pytest

from slackwater.core import Column, DataType, Position, TableSchema
from slackwater.core.errors import SqlError
from slackwater.hosting.binder import Binder
from slackwater.sessions.engine import NodeEngine
from slackwater.sql import parse

ITEMS = TableSchema("items", (Column("k", DataType.TEXT, nullable=False), Column("v", DataType.DOUBLE)), key=("k",))
WIDER = ITEMS.with_column(Column("w", DataType.DOUBLE))
SQL = "SUBSCRIBE SELECT SUM(w) FROM items WITHIN 1"


def test_a_refusal_is_remembered_until_the_tables_change() -> None:
    binder = Binder()
    with pytest.raises(SqlError, match="no column 'w'") as first:
        binder.bind(SQL, {"items": ITEMS})
    with pytest.raises(SqlError) as second:
        binder.bind(SQL, {"items": WIDER})
    assert second.value is first.value, "not read again"
    binder.forget()
    query, text, name = binder.bind(SQL, {"items": WIDER})
    assert (query.table, name) == ("items", None)
    assert binder.bind(text, {})[0] is query


def test_what_was_read_while_the_tables_changed_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    binder = Binder()

    def parse_while_the_tables_change(sql: str) -> object:
        binder.forget()
        return parse(sql)

    monkeypatch.setattr("slackwater.hosting.binder.parse", parse_while_the_tables_change)
    binder.bind("SUBSCRIBE SELECT SUM(v) FROM items WITHIN 1", {"items": ITEMS})
    with pytest.raises(SqlError):
        binder.bind("SUBSCRIBE SELECT SUM(v) FROM items WITHIN 1", {})


def test_reading_ahead_refuses_nothing_and_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, good = NodeEngine(), "SUBSCRIBE SELECT SUM(v) FROM items WITHIN 1"
    engine.host.define(ITEMS, Position(1))
    for sql in ("SUBSCRIBE nonsense", good):
        engine.read(sql)

    def parse_again(sql: str) -> object:
        raise AssertionError(f"{sql} is parsed again")

    monkeypatch.setattr("slackwater.hosting.binder.parse", parse_again)
    with pytest.raises(SqlError):
        engine.bind("SUBSCRIBE nonsense")
    assert engine.bind(good)[0].table == "items"
    with pytest.raises(AssertionError, match="parsed again"):
        engine.bind("SUBSCRIBE other nonsense")
