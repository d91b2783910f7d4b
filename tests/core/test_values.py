"""The small values: what they refuse, and the few things they compute."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater import core
from slackwater.core import (
    Aggregate,
    AggregateFunction,
    AlgebraError,
    Bound,
    Column,
    DataType,
    Instant,
    Operation,
    Origin,
    SchemaError,
    TableSchema,
    Update,
    Weight,
    instant,
    moment,
)
from slackwater.core.arrow import from_batch, to_batch, update_schema
from slackwater.planning.push_pull.cost_models import LinearCost

SYMBOL = Column("symbol", DataType.TEXT, nullable=False)
PRICE = Column("price", DataType.DOUBLE)
AT = Column("at", DataType.TIMESTAMP)
QUOTES = TableSchema("quotes", (SYMBOL, PRICE, AT), key=("symbol",), event_time="at")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": ()}, "0 columns"),
        ({"columns": (SYMBOL, Column("Symbol", DataType.TEXT))}, "two columns"),
        ({"key": ()}, "PRIMARY KEY"),
        ({"key": ("symbol", "symbol")}, "twice"),
        ({"key": ("price",)}, "nullable"),
        ({"key": ("colour",)}, "no column 'colour'; it has symbol, price, at"),
        ({"event_time": "price"}, "must be a TIMESTAMP"),
        ({"name": "$quotes"}, "kept for Slackwater"),
        ({"name": ""}, "1 to 128"),
        ({"name": "a\nb"}, "control character"),
    ],
)
def test_tables_that_cannot_be(changes: dict[str, object], message: str) -> None:
    whole: dict[str, object] = {"name": "quotes", "columns": (SYMBOL, PRICE, AT), "key": ("symbol",)}
    with pytest.raises(SchemaError, match=message.replace("$", r"\$")):
        TableSchema(**{**whole, **changes})  # type: ignore[arg-type]


def test_a_table_grows_only_by_nullable_columns() -> None:
    grown = QUOTES.with_column(Column("volume", DataType.BIGINT))
    QUOTES.check_change(grown)
    assert [column.name for column in grown.values] == ["price", "volume"]
    with pytest.raises(SchemaError, match="nullable"):
        QUOTES.with_column(Column("volume", DataType.BIGINT, nullable=False))
    with pytest.raises(SchemaError, match="only be added"):
        grown.check_change(QUOTES)
    with pytest.raises(SchemaError, match="cannot be changed"):
        QUOTES.check_change(TableSchema("quotes", (SYMBOL, PRICE, AT), key=("symbol",)))


@pytest.mark.parametrize(("within", "fidelity"), [(-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0), (1, 1.01)])
def test_bounds_that_cannot_be(within: float, fidelity: float) -> None:
    with pytest.raises(AlgebraError):
        Bound(within, fidelity)


def test_a_bound_holds_up_to_and_including_itself() -> None:
    assert Bound(2).holds(1, 3)
    assert not Bound(2).holds(1, 3.5)
    assert Bound(2).always
    assert not Bound(2, 0.98).always


def test_prices_are_not_negative() -> None:
    assert LinearCost(3, 0.01).message(200) == 5.0
    with pytest.raises(ValueError, match="beta"):
        LinearCost(1, -1)


def test_aggregates_that_cannot_be() -> None:
    with pytest.raises(AlgebraError, match="needs a column"):
        Aggregate("t", AggregateFunction.SUM, None)
    with pytest.raises(AlgebraError, match="twice"):
        Aggregate("t", AggregateFunction.SUM, "x", weights=(Weight(("a",), 1), Weight(("a",), 2)))
    with pytest.raises(AlgebraError, match="finite"):
        Weight(("a",), float("inf"))


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_and_moments(at: datetime) -> None:
    assert moment(instant(at)) == at


def test_naive_moments_are_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        instant(datetime(2026, 1, 1))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            Update,
            st.just("quotes"),
            st.tuples(
                st.text(max_size=3),
                st.none() | st.floats(allow_nan=False),
                st.none() | st.integers(-(10**15), 10**15),
            ),
            st.integers(-(10**15), 10**15).map(Instant),
            st.builds(Origin, st.text(max_size=3), st.integers(0, 2**62)),
            st.sampled_from(Operation),
        ),
        max_size=5,
    )
)
def test_updates_go_into_columns_and_back(updates: list[Update]) -> None:
    batch = to_batch(QUOTES, updates)
    batch.validate(full=True)
    assert batch.schema == update_schema(QUOTES)
    assert from_batch(QUOTES, batch) == updates


def test_stored_numbers_never_change() -> None:
    assert {operation.name: int(operation) for operation in Operation} == {"UPSERT": 0, "DELETE": 1}
    assert update_schema(QUOTES).field("$time").type == pa.timestamp("us", tz="UTC")


def test_public_names_exist_and_are_documented() -> None:
    for name in core.__all__:
        assert hasattr(core, name), name
    errors = [getattr(core, name) for name in core.__all__ if name.endswith(("Error", "Corrupt", "Gone", "Locked"))]
    assert all(issubclass(error, core.SlackwaterError) and error.__doc__ for error in errors)
