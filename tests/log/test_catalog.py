import pytest

from slackwater.core import Column, DataType, SchemaError, TableSchema
from slackwater.log import Catalog, TableDefined, TableDropped, catalog

KEY = Column("k", DataType.BIGINT, nullable=False)


def table(name: str, *more: Column) -> TableSchema:
    return TableSchema(name, (KEY, *more), key=("k",))


def test_tables_stand_in_the_order_of_their_creation() -> None:
    wider = table("a", Column("x", DataType.TEXT))
    state = Catalog()
    for schema in (table("b"), table("a"), table("c"), wider):
        state = state.after(TableDefined(schema))
    assert [one.name for one in state] == ["b", "a", "c"]
    assert state.find("a") == wider
    state = state.after(TableDropped("b")).after(TableDefined(table("b")))
    assert [one.name for one in state] == ["a", "c", "b"]
    assert len(state) == 3


def test_what_may_not_follow_is_refused() -> None:
    state = Catalog().after(TableDefined(table("a", Column("x", DataType.TEXT))))
    with pytest.raises(SchemaError, match="existing ones cannot be changed"):
        state.after(TableDefined(table("a", Column("x", DataType.DOUBLE))))
    with pytest.raises(SchemaError, match="no table b to drop; there are a"):
        state.after(TableDropped("b"))
    with pytest.raises(SchemaError, match="there are none"):
        Catalog().after(TableDropped("b"))


def test_there_is_a_most_number_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "MOST_TABLES", 2)
    state = Catalog().after(TableDefined(table("a"))).after(TableDefined(table("b")))
    with pytest.raises(SchemaError, match="2 tables already"):
        state.after(TableDefined(table("c")))
    assert len(state.after(TableDefined(table("a")))) == 2
