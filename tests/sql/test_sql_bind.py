"""Binding: statements become the values of core that they mean."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import (
    EXACT,
    Aggregate,
    AggregateFunction,
    Bound,
    Box,
    Catalogued,
    Column,
    CreateSource,
    CreateTable,
    DataType,
    Drop,
    Explain,
    Interval,
    OneShot,
    QueryId,
    Region,
    Select,
    Selection,
    Show,
    Side,
    SourceKind,
    SourceOption,
    SqlError,
    Statement,
    Subscribe,
    TableSchema,
    Weight,
)
from slackwater.core.errors import NotSupported
from slackwater.sql import Catalog, bind, parse, to_sql
from slackwater.sql.durations import duration, write_duration


def bound(text: str, catalog: Catalog) -> Statement:
    return bind(parse(text), catalog)


def aggregate_of(text: str, catalog: Catalog) -> Aggregate:
    statement = bound(text, catalog)
    assert isinstance(statement, Subscribe)
    assert isinstance(statement.query, Aggregate)
    return statement.query


def one_shot(text: str, catalog: Catalog) -> OneShot:
    statement = bound(text, catalog)
    assert isinstance(statement, Select)
    return statement.query


def test_create_table() -> None:
    text = """CREATE TABLE IF NOT EXISTS Stock (
        Name VARCHAR, "odd one" TEXT NOT NULL, n INT, x REAL, y FLOAT, ok BOOL, at TIMESTAMP,
        PRIMARY KEY (name, "odd one")
    ) EVENT TIME AT"""
    schema = TableSchema(
        "Stock",
        (
            Column("Name", DataType.TEXT, nullable=False),
            Column("odd one", DataType.TEXT, nullable=False),
            Column("n", DataType.BIGINT),
            Column("x", DataType.DOUBLE),
            Column("y", DataType.DOUBLE),
            Column("ok", DataType.BOOLEAN),
            Column("at", DataType.TIMESTAMP),
        ),
        key=("Name", "odd one"),
        event_time="at",
    )
    assert bound(text, Catalog()) == CreateTable(schema, if_not_exists=True)


def test_create_source(catalog: Catalog) -> None:
    text = """CREATE SOURCE S1 FOR QUOTES FROM http 'http://localhost/x'
              WITH (Every = '1.5 seconds', depth = -2, gzip = TRUE, a = 'b')"""
    assert bound(text, catalog) == CreateSource(
        "S1",
        "quotes",
        SourceKind.HTTP,
        "http://localhost/x",
        1_500_000,
        (SourceOption("depth", -2), SourceOption("gzip", True), SourceOption("a", "b")),
    )


def test_show_drop_explain(catalog: Catalog) -> None:
    assert bound("SHOW SOURCES", catalog) == Show(Catalogued.SOURCE)
    assert bound("DROP SUBSCRIPTION OLD", catalog) == Drop(Catalogued.SUBSCRIPTION, "old")
    assert bound("DROP TABLE IF EXISTS nothing", catalog) == Drop(Catalogued.TABLE, "nothing", if_exists=True)
    assert bound("EXPLAIN SHOW TABLES", catalog) == Explain(Show(Catalogued.TABLE))


def test_selection_resolves_names_to_the_spelling_of_the_schema(catalog: Catalog) -> None:
    cheap = Region((Box.of(Side("Price", Interval(None, 3000.0, high_open=True))),))
    every = Selection("Cars", ("id", "Price", "year"), cheap)
    assert bound("SUBSCRIBE Cheap AS SELECT * FROM CARS WHERE PRICE < 3000", catalog) == Subscribe(
        every, QueryId("Cheap")
    )
    assert bound("SUBSCRIBE SELECT c.* FROM cars c WHERE C.price < 3000", catalog) == Subscribe(every)
    assert bound('SUBSCRIBE SELECT "YEAR", price AS PRICE FROM cars', catalog) == Subscribe(
        Selection("Cars", ("year", "Price"))
    )


@pytest.mark.parametrize(
    ("inside", "scale"),
    [
        ("price", 1),
        ("2 * price", 2),
        ("price * 2", 2),
        ("-price", -1),
        ("(price) / 4", 0.25),
        ("2 * (3 * price) * -1", -6),
    ],
)
def test_scaled_sums(catalog: Catalog, inside: str, scale: float) -> None:
    query = aggregate_of(f"SUBSCRIBE SELECT SUM({inside}) AS total FROM quotes WITHIN 5", catalog)
    assert query == Aggregate("quotes", AggregateFunction.SUM, "price", Bound(5.0), scale=float(scale))


def test_weights_are_sorted_and_added_up(catalog: Catalog) -> None:
    text = """SUBSCRIBE SELECT SUM(w * price) FROM quotes
              JOIN (VALUES (2 * 2, 'MSFT'), (1.5, 'IBM'), (-0.5, 'IBM')) AS p(w, SYMBOL) USING (symbol)
              WITHIN 2400 FIDELITY 97.3%"""
    weights = (Weight(("IBM",), 1.0), Weight(("MSFT",), 4.0))
    expected = Aggregate("quotes", AggregateFunction.SUM, "price", Bound(2400.0, 0.973), weights=weights)
    assert aggregate_of(text, catalog) == expected
    assert aggregate_of(text.replace("w * price", "price * p.w"), catalog) == expected
    assert aggregate_of(text.replace("97.3%", "0.973"), catalog) == expected


def test_a_list_without_weights_counts_each_once(catalog: Catalog) -> None:
    text = "SUBSCRIBE SELECT SUM(price) FROM quotes JOIN (VALUES ('b'), ('a'), ('a')) AS p(symbol) USING (symbol)"
    assert aggregate_of(text, catalog).weights == (Weight(("a",), 2.0), Weight(("b",), 1.0))
    assert aggregate_of(text.replace(", ('a'))", ")").replace("SUM", "AVG"), catalog).weights == (
        Weight(("a",), 1.0),
        Weight(("b",), 1.0),
    )


def test_composite_and_numeric_keys(catalog: Catalog) -> None:
    text = """SUBSCRIBE SELECT SUM(w * per) FROM stock
              JOIN (VALUES ('N', 2, 'x')) AS p(exchange, w, name) USING (exchange, name)"""
    assert aggregate_of(text, catalog).weights == (Weight(("x", "N"), 2.0),)
    text = "SUBSCRIBE SELECT SUM(w * price) FROM Cars JOIN (VALUES (2.0, 1), (1, 1)) AS p(id, w) USING (id)"
    assert aggregate_of(text, catalog).weights == (Weight((1,), 1.0), Weight((2,), 1.0))
    with pytest.raises(SqlError, match="BIGINT"):
        bound(text.replace("2.0", "2.5"), catalog)
    with pytest.raises(SqlError, match="BIGINT"):
        bound(text.replace("2.0", "9223372036854775808"), catalog)


def test_other_aggregates(catalog: Catalog) -> None:
    assert aggregate_of("SUBSCRIBE SELECT MIN(per) FROM stock", catalog).bound == EXACT
    assert aggregate_of("SUBSCRIBE SELECT MAX(per) FROM stock WITHIN 0", catalog).bound == EXACT
    assert aggregate_of("SUBSCRIBE SELECT COUNT(*) FROM stock WITHIN 3", catalog).column is None
    assert aggregate_of("SUBSCRIBE SELECT COUNT(exchange) FROM stock WITHIN 3", catalog).column == "exchange"
    assert aggregate_of("SUBSCRIBE SELECT AVG(floor) FROM sensors WITHIN .5", catalog).bound == Bound(0.5)


def test_pull_only_tables_need_fidelity(catalog: Catalog) -> None:
    assert catalog.pull_only("polled")
    assert not catalog.pull_only("quotes")
    assert not catalog.pull_only("Cars"), "a table that nothing is known to feed may be pushed to"
    bounded = "SUBSCRIBE SELECT SUM(value) FROM polled WITHIN 5"
    with pytest.raises(SqlError, match="FIDELITY 98%"):
        bound(bounded, catalog)
    assert aggregate_of(f"{bounded} FIDELITY 98%", catalog).bound == Bound(5.0, 0.98)
    pushed = CreateSource("other", "polled", SourceKind.FILE, "x.csv")
    both = Catalog(catalog.tables, (*catalog.sources, pushed))
    assert aggregate_of(bounded, both).bound == Bound(5.0)


def test_one_shot_text_is_qualified_and_spelled(catalog: Catalog) -> None:
    query = one_shot("select PRICE from CARS where YEAR > 1998", catalog)
    assert query.text == 'SELECT "cars"."Price" AS "Price" FROM "Cars" AS "cars" WHERE "cars"."year" > 1998'
    assert query.tables == ("Cars",)
    newer = Region((Box.of(Side("year", Interval(1999, None))),))
    assert query.selection == Selection("Cars", ("Price",), newer)


def test_names_of_the_answer_keep_their_spelling(catalog: Catalog) -> None:
    text = "SELECT PRICE, Year AS Since, year + 1 AS Next FROM cars ORDER BY price, SINCE"
    assert one_shot(text, catalog).text == (
        'SELECT "cars"."Price" AS "Price", "cars"."year" AS "Since", "cars"."year" + 1 AS "Next" '
        'FROM "Cars" AS "cars" ORDER BY "Price", "Since"'
    )
    inner = "WITH Newer AS (SELECT Price AS P FROM cars) SELECT p FROM NEWER"
    assert one_shot(inner, catalog).tables == ("Cars",)


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT c.price, s.room FROM cars c JOIN sensors s USING (id) WHERE s.ok", ("Cars", "sensors")),
        ("SELECT year, COUNT(*) FROM cars GROUP BY year HAVING COUNT(*) > 1 ORDER BY 2", ("Cars",)),
        ("WITH quotes AS (SELECT id FROM cars) SELECT * FROM quotes", ("Cars",)),
        ("SELECT * FROM cars WHERE id IN (SELECT id FROM sensors)", ("Cars", "sensors")),
        ("SELECT * FROM cars WHERE price * 2 > 5", ("Cars",)),
        ("SELECT id FROM cars UNION SELECT id FROM sensors", ("Cars", "sensors")),
        ("SELECT v.a + 1 AS b FROM (VALUES (1), (2)) AS v(a)", ()),
        ("SELECT 1", ()),
        ("VALUES (1, 2)", ()),
    ],
)
def test_one_shots_that_are_no_selection(catalog: Catalog, text: str, tables: tuple[str, ...]) -> None:
    query = one_shot(text, catalog)
    assert query.tables == tables
    assert query.selection is None
    again = one_shot(query.text, catalog)
    assert again.text == query.text, "a normal form is its own normal form"


def test_binding_leaves_the_parsed_statement_as_it_was(catalog: Catalog) -> None:
    for text in (
        "SELECT price FROM cars c JOIN sensors s USING (id)",
        "SUBSCRIBE SELECT * FROM cars WHERE id = 1 OR id = 2",
    ):
        parsed = parse(text)
        assert bind(parsed, catalog) == bind(parsed, catalog)
        assert parsed.tree == parse(text).tree


# ---- the other way ------------------------------------------------------------------------------------------

NAMES = st.text(min_size=1, max_size=12).filter(
    lambda name: not name.startswith("$") and all(ord(letter) >= 32 for letter in name)
)


@st.composite
def schemas(draw: st.DrawFn) -> TableSchema:
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique_by=str.lower))
    key = tuple(draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
    columns = tuple(
        Column(name, draw(st.sampled_from(DataType)), nullable=name not in key and draw(st.booleans()))
        for name in names
    )
    times = [column.name for column in columns if column.type is DataType.TIMESTAMP]
    event_time = draw(st.sampled_from([None, *times]))
    return TableSchema(draw(NAMES), columns, key, event_time)


@given(schemas(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_tables_come_back(schema: TableSchema, if_not_exists: bool) -> None:
    statement = CreateTable(schema, if_not_exists)
    assert bind(parse(to_sql(statement, Catalog())), Catalog()) == statement


@given(
    NAMES,
    st.sampled_from(SourceKind),
    st.text(min_size=1, max_size=20).filter(lambda text: text.strip()),
    st.none() | st.integers(1, 10**13),
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(lambda name: name != "every"),
        st.booleans()
        | st.integers(-(10**20), 10**20)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=10),
        max_size=3,
    ),
)
@settings(max_examples=200, deadline=None)
def test_sources_come_back(
    name: str, kind: SourceKind, address: str, every: int | None, options: dict[str, bool | int | float | str]
) -> None:
    table = TableSchema("t", (Column("k", DataType.TEXT, nullable=False),), ("k",))
    settings = tuple(SourceOption(*option) for option in options.items())
    statement = CreateSource(name, "t", kind, address, every, settings)
    assert bind(parse(to_sql(statement, Catalog((table,)))), Catalog((table,))) == statement


@given(
    st.sampled_from(["SUM", "AVG", "MIN", "MAX"]),
    st.floats(-1e6, 1e6).filter(lambda scale: scale != 0),
    st.floats(0, 1e9),
    st.floats(1e-6, 1),
    st.none() | st.dictionaries(st.text(max_size=5), st.floats(-1e6, 1e6), min_size=1, max_size=4),
)
@settings(max_examples=200, deadline=None)
def test_aggregates_come_back(
    catalog: Catalog, function: str, scale: float, within: float, fidelity: float, weights: dict[str, float] | None
) -> None:
    one = function == "AVG"
    query = Aggregate(
        "quotes",
        AggregateFunction(function),
        "price",
        Bound(within, fidelity),
        weights=None
        if weights is None
        else tuple(Weight((key,), 1.0 if one else weights[key] + 0.0) for key in sorted(weights)),
        scale=scale,
    )
    statement = Subscribe(query, QueryId("a name"))
    assert bind(parse(to_sql(statement, catalog)), catalog) == statement


@given(st.integers(1, 366 * 86_400 * 10**6))
def test_durations_come_back(length: int) -> None:
    assert duration(write_duration(length)) == length


def test_what_falls_apart_into_too_many_boxes_can_be_asked_once() -> None:
    """The evaluator can do it; nobody can keep it standing."""
    columns = (Column("id", DataType.BIGINT, nullable=False), *(Column(f"c{k}", DataType.BIGINT) for k in range(9)))
    catalog = Catalog(tables=(TableSchema("u", columns, key=("id",)),))
    for condition in (
        f"id IN ({', '.join(str(2 * number) for number in range(5_000))})",
        " OR ".join(f"c{k} = {k}" for k in range(9)),
    ):
        query = one_shot(f"SELECT id FROM u WHERE {condition}", catalog)
        assert (query.tables, query.selection) == (("u",), None)
        with pytest.raises(NotSupported, match="split"):
            bind(parse(f"SUBSCRIBE SELECT id FROM u WHERE {condition}"), catalog)
    with pytest.raises(SqlError, match="no column"):
        bind(parse("SELECT id FROM u WHERE nowhere = 1"), catalog)


def test_stars_and_tables_have_a_limit() -> None:
    wide = TableSchema("u", tuple(Column(f"c{k}", DataType.BIGINT, nullable=False) for k in range(50)), key=("c0",))
    catalog = Catalog(tables=(wide,))
    places = ", ".join(f"u u{k}" for k in range(100))
    with pytest.raises(SqlError, match="too many columns"):
        bind(parse(f"SELECT {', '.join('*' * 500)} FROM {places}"), catalog)
    with pytest.raises(SqlError, match="the most is 200"):
        bind(parse("SELECT 1 FROM " + ", ".join(f"u u{k}" for k in range(201))), catalog)


def test_names_that_need_quotes_can_be_asked_for() -> None:
    rooms = TableSchema(
        "my rooms",
        (Column("Id no", DataType.BIGINT, nullable=False), Column("v", DataType.DOUBLE)),
        key=("Id no",),
    )
    cars = TableSchema("Cars", (Column("id", DataType.BIGINT, nullable=False),), key=("id",))
    catalog = Catalog((rooms, cars))
    for text in (
        "SELECT * FROM cars",
        'SELECT "id NO", V FROM "My Rooms" WHERE v > 3',
        'SELECT "my rooms".v FROM "my rooms"',
        'SELECT c.id, r.v FROM cars c JOIN "my rooms" r ON r."Id no" = c.id',
    ):
        assert isinstance(bind(parse(text), catalog), Select), text
