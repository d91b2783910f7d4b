"""WHERE → region, against an independent evaluator of SQL's three-valued logic."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.core import (
    EVERYTHING,
    NOTHING,
    Categories,
    Column,
    DataType,
    Interval,
    Missing,
    NotSupported,
    Region,
    Scalar,
    Selection,
    SqlError,
    Subscribe,
    TableSchema,
    instant,
)
from slackwater.sql import Catalog, bind, parse, to_sql
from slackwater.sql.ranges import normal

TABLE = TableSchema(
    "t",
    (
        Column("k", DataType.BIGINT, nullable=False),
        Column("i", DataType.BIGINT),
        Column("d", DataType.DOUBLE),
        Column("s", DataType.TEXT),
        Column("b", DataType.BOOLEAN),
        Column("m", DataType.TIMESTAMP),
    ),
    key=("k",),
)
CATALOG = Catalog((TABLE,))

MOMENTS = ("2026-01-01 00:00:00+00:00", "2026-01-01 00:00:00.000001+00:00", "2026-01-02 00:00:00+00:00")
INSTANTS = {text: int(instant(datetime.fromisoformat(text))) for text in MOMENTS}


def region_of(condition: str) -> Region:
    statement = bind(parse(f"SUBSCRIBE SELECT * FROM t WHERE {condition}"), CATALOG)
    assert isinstance(statement, Subscribe)
    assert isinstance(statement.query, Selection)
    return statement.query.region


# ---- an evaluator of its own: True, False or None (unknown) -------------------------------------------------


@dataclass(frozen=True)
class Predicate:
    """A condition as text, and how a row is judged by it."""

    text: str
    judge: "Judge"


class Judge:
    def __call__(self, row: dict[str, Scalar | None]) -> bool | None:
        raise AssertionError


@dataclass(frozen=True)
class Comparison(Judge):
    column: str
    sign: str
    value: Scalar | None

    def __call__(self, row: dict[str, Scalar | None]) -> bool | None:
        left = row[self.column]
        if left is None or self.value is None:
            return None
        a, b = left, self.value
        match self.sign:
            case "=":
                return a == b
            case "<>":
                return a != b
        assert isinstance(a, str) is isinstance(b, str)
        return {
            "<": a < b,  # type: ignore[operator]
            "<=": a <= b,  # type: ignore[operator]
            ">": a > b,  # type: ignore[operator]
            ">=": a >= b,  # type: ignore[operator]
        }[self.sign]


@dataclass(frozen=True)
class Not(Judge):
    inner: Judge

    def __call__(self, row: dict[str, Scalar | None]) -> bool | None:
        value = self.inner(row)
        return None if value is None else not value


@dataclass(frozen=True)
class Connected(Judge):
    parts: tuple[Judge, ...]
    conjunction: bool

    def __call__(self, row: dict[str, Scalar | None]) -> bool | None:
        values = [part(row) for part in self.parts]
        if (not self.conjunction) in values:
            return not self.conjunction
        return None if None in values else self.conjunction


@dataclass(frozen=True)
class IsTruth(Judge):
    inner: Judge
    wanted: bool | None

    def __call__(self, row: dict[str, Scalar | None]) -> bool | None:
        return self.inner(row) is self.wanted


@dataclass(frozen=True)
class IsNull(Judge):
    column: str

    def __call__(self, row: dict[str, Scalar | None]) -> bool | None:
        return row[self.column] is None


@dataclass(frozen=True)
class Same(Judge):
    column: str
    value: Scalar | None

    def __call__(self, row: dict[str, Scalar | None]) -> bool | None:
        return row[self.column] == self.value


@dataclass(frozen=True)
class Always(Judge):
    value: bool | None

    def __call__(self, row: dict[str, Scalar | None]) -> bool | None:
        return self.value


SIGNS = ("=", "<>", "<", "<=", ">", ">=")
FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

Pair = tuple[str, Scalar | None]


def constants(column: str) -> st.SearchStrategy[Pair]:
    """Constants for a column: text and value."""
    whole = st.integers(-3, 3).map(lambda n: (str(n), n))
    huge = st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30]).map(lambda n: (str(n), n))
    half = st.sampled_from([-1.5, 0.5, 2.5]).map(lambda x: (str(x), x))
    sums = st.tuples(st.integers(-3, 3), st.integers(-3, 3)).map(lambda p: (f"({p[0]} * {p[1]} - 1)", p[0] * p[1] - 1))
    null: st.SearchStrategy[Pair] = st.just(("NULL", None))
    numbers: st.SearchStrategy[Pair] = st.one_of(whole, whole, half, sums, null)
    match column:
        case "k" | "i":
            return st.one_of(numbers, numbers, huge)
        case "d":
            return numbers.map(lambda pair: (pair[0], None if pair[1] is None else float(pair[1])))
        case "s":
            return st.one_of(
                st.sampled_from(["a", "b", "it's", ""]).map(lambda s: ("'" + s.replace("'", "''") + "'", s)), null
            )
        case "b":
            return st.one_of(st.booleans().map(lambda b: (str(b).upper(), b)), null)
        case _:
            moments = st.sampled_from(MOMENTS)
            return st.one_of(
                moments.map(lambda m: (f"TIMESTAMP '{m}'", INSTANTS[m])),
                moments.map(lambda m: (f"'{m}'", INSTANTS[m])),
                null,
            )


@st.composite
def leaves(draw: st.DrawFn) -> Predicate:
    column = draw(st.sampled_from(["k", "i", "d", "s", "b", "m"]))
    signs = SIGNS if column != "b" else SIGNS[:2]
    name = draw(st.sampled_from([column, column.upper(), f't."{column}"']))
    one = constants(column)
    match draw(st.integers(0, 7)):
        case 0 | 1:
            (text, value), sign = draw(one), draw(st.sampled_from(signs))
            if draw(st.booleans()):
                return Predicate(f"{text} {FLIPPED[sign]} {name}", Comparison(column, sign, value))
            return Predicate(f"{name} {sign} {text}", Comparison(column, sign, value))
        case 2 if column != "b":
            (low, a), (high, b) = draw(one), draw(one)
            judge: Judge = Connected((Comparison(column, ">=", a), Comparison(column, "<=", b)), True)
            if draw(st.booleans()):
                return Predicate(f"{name} NOT BETWEEN {low} AND {high}", Not(judge))
            return Predicate(f"{name} BETWEEN {low} AND {high}", judge)
        case 3:
            pairs = draw(st.lists(one, min_size=1, max_size=4))
            judge = Connected(tuple(Comparison(column, "=", value) for _, value in pairs), False)
            listed = ", ".join(text for text, _ in pairs)
            if draw(st.booleans()):
                return Predicate(f"{name} NOT IN ({listed})", Not(judge))
            return Predicate(f"{name} IN ({listed})", judge)
        case 4:
            if draw(st.booleans()):
                return Predicate(f"{name} IS NOT NULL", Not(IsNull(column)))
            return Predicate(f"{name} IS NULL", IsNull(column))
        case 5:
            text, value = draw(one)
            if draw(st.booleans()):
                return Predicate(f"{name} IS DISTINCT FROM {text}", Not(Same(column, value)))
            return Predicate(f"{name} IS NOT DISTINCT FROM {text}", Same(column, value))
        case 6:
            return draw(
                st.sampled_from(
                    [
                        Predicate("TRUE", Always(True)),
                        Predicate("FALSE", Always(False)),
                        Predicate("NULL", Always(None)),
                        Predicate("1 < 2", Always(True)),
                        Predicate("'a' = 'b'", Always(False)),
                        Predicate("3 IN (1, NULL)", Always(None)),
                        Predicate("NULL IS NULL", Always(True)),
                    ]
                )
            )
    return Predicate("b", Comparison("b", "=", True))


def combine(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    def connected(parts: list[Predicate], conjunction: bool) -> Predicate:
        word = " AND " if conjunction else " OR "
        return Predicate(word.join(f"({p.text})" for p in parts), Connected(tuple(p.judge for p in parts), conjunction))

    def truth(p: Predicate, wanted: bool, negated: bool) -> Predicate:
        judge: Judge = IsTruth(p.judge, wanted)
        words = f"({p.text}) IS {'NOT ' if negated else ''}{str(wanted).upper()}"
        return Predicate(words, Not(judge) if negated else judge)

    return st.one_of(
        st.builds(connected, st.lists(inner, min_size=2, max_size=3), st.booleans()),
        inner.map(lambda p: Predicate(f"NOT ({p.text})", Not(p.judge))),
        st.builds(truth, inner, st.booleans(), st.booleans()),
    )


PREDICATES = st.recursive(leaves(), combine, max_leaves=6)

ROWS = st.fixed_dictionaries(
    {
        "k": st.sampled_from([-(2**63), -3, -2, -1, 0, 1, 2, 3, 2**63 - 1]),
        "i": st.sampled_from([None, -(2**63), -3, -2, -1, 0, 1, 2, 3, 8, 2**63 - 1]),
        "d": st.sampled_from([None, -3.0, -1.5, -1.0, 0.0, 0.25, 0.5, 2.0, 2.5, 3.0, 1e300]),
        "s": st.sampled_from([None, "", "a", "aa", "b", "it's", "z"]),
        "b": st.sampled_from([None, True, False]),
        "m": st.sampled_from([None, 0, *INSTANTS.values(), max(INSTANTS.values()) + 1]),
    }
)


def check_region(predicate: Predicate, rows: list[dict[str, Scalar | None]]) -> None:
    region = region_of(predicate.text)
    region._check()
    assert normal(region, TABLE) == region, "a normal form is its own normal form"
    for row in rows:
        expected = predicate.judge(row) is True
        assert region.contains(row.get) is expected, f"{predicate.text} on {row}: {region}"
    subscribe = Subscribe(Selection("t", ("k",), region))
    assert bind(parse(to_sql(subscribe, CATALOG)), CATALOG) == subscribe


@given(PREDICATES, st.lists(ROWS, min_size=1, max_size=12))
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_region_holds_exactly_the_rows_for_which_the_condition_is_true(
    predicate: Predicate, rows: list[dict[str, Scalar | None]]
) -> None:
    check_region(predicate, rows)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@given(PREDICATES, st.lists(ROWS, min_size=1, max_size=25))
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_many_regions(predicate: Predicate, rows: list[dict[str, Scalar | None]]) -> None:
    check_region(predicate, rows)


# ---- normal forms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i > 3", "(i in [4, ∞))"),
        ("i > 2.5", "(i in [3, ∞))"),
        ("i < 2.5", "(i in (-∞, 2])"),
        ("i = 2.5", "nothing"),
        ("i = 3", "(i in [3, 3])"),
        ("i <> 2.5", "(i in (-∞, ∞))"),
        ("i IN (1, 2, 3, 7)", "(i in [1, 3]) or (i in [7, 7])"),
        ("i <= 3 OR i > 3", "(i in (-∞, ∞))"),
        ("i <= 3 OR i > 3 OR i IS NULL", "(everything)"),
        ("k IS NOT NULL", "(everything)"),
        ("k IS NULL", "nothing"),
        ("NOT (i > 3)", "(i in (-∞, 3])"),
        ("i < 99999999999999999999999", "(i in (-∞, ∞))"),
        ("i > 99999999999999999999999", "nothing"),
        ("d = 3", "(d in [3.0, 3.0])"),
        ("2 * 500 > d", "(d in (-∞, 1000.0))"),
        ("d > -3", "(d in (-3.0, ∞))"),
        ("d < 1 OR d >= 1", "(d in (-∞, ∞))"),
        ("s = 'a' OR s = 'b'", "(s in {'a', 'b'})"),
        ("s <> 'a'", "(s in not {'a'})"),
        ("s BETWEEN 'a' AND 'a'", "(s in {'a'})"),
        ("s >= 'a' AND s < 'b'", "(s in ['a', 'b'))"),
        ("b OR NOT b", "(b in (-∞, ∞))"),
        ("m > '1970-01-01 00:00:01Z'", "(m in [1000001, ∞))"),
        ("m < TIMESTAMP '1970-01-01 01:00:01+01:00'", "(m in (-∞, 999999])"),
    ],
)
def test_normal_form(condition: str, expected: str) -> None:
    assert str(region_of(condition)) == expected


def test_conditions_that_mean_the_same_are_equal() -> None:
    assert region_of("i BETWEEN 1 AND 5") == region_of("NOT (i < 1 OR 5 < i)") == region_of("i > 0 AND i < 6")
    assert region_of("s IN ('a', 'b')") == region_of("NOT (s <> 'a' AND s <> 'b')")
    assert region_of("FALSE") == NOTHING
    assert region_of("TRUE") == EVERYTHING


def test_kinds_of_extent() -> None:
    (box,) = region_of("i = 1 AND s = 'a' AND b AND d IS NULL").boxes
    assert box.extent("i") == Interval(1, 1)
    assert box.extent("s") == Categories(frozenset({"a"}))
    assert box.extent("b") == Categories(frozenset({True}))
    assert box.extent("d") == Missing()


def test_a_long_list_is_one_step_and_a_tangle_is_refused() -> None:
    numbers = ", ".join(str(2 * n) for n in range(1000))
    assert len(region_of(f"i IN ({numbers})").boxes) == 1000
    assert len(region_of(f"i NOT IN ({numbers})").boxes) == 1001
    assert region_of(" OR ".join(f"i = {2 * n}" for n in range(1000))) == region_of(f"i IN ({numbers})")
    with pytest.raises(SqlError, match="5000 boxes"):
        region_of(f"i IN ({', '.join(str(2 * n) for n in range(5000))})")
    with pytest.raises(SqlError, match="too complicated"):
        region_of(f"i IN ({numbers}) AND d IN ({numbers})")
    with pytest.raises(SqlError, match="too complicated"):
        region_of(" OR ".join(f"(i = {2 * n} AND d > {n})" for n in range(400)))


# ---- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "kind", "message"),
    [
        ("d < 'abc'", SqlError, "column d is DOUBLE and cannot be compared with the text 'abc'"),
        ("s = 3", SqlError, "column s is TEXT and cannot be compared with the number 3"),
        ("b = 1", SqlError, "BOOLEAN"),
        ("b < TRUE", SqlError, "no order"),
        ("i = TRUE", SqlError, "the boolean TRUE"),
        ("m > 5", SqlError, "TIMESTAMP"),
        ("m > TIMESTAMP '2026-01-01 00:00:00'", SqlError, "has no time zone"),
        ("m > 'soon'", SqlError, "is no timestamp"),
        ("i = TIMESTAMP '2026-01-01 00:00:00Z'", SqlError, "a timestamp"),
        ("i IN (1, 'a')", SqlError, "the text 'a'"),
        ("i", SqlError, "not a condition"),
        ("5", SqlError, "expected a condition"),
        ("1 = 'a'", SqlError, "cannot be compared"),
        ("d < 1e999", SqlError, "too large"),
        ("d < 1 / 0", SqlError, "divides by zero"),
        ("d < 7 / 2", SqlError, "write the result"),
        ("d < -'a'", SqlError, "arithmetic needs numbers"),
        ("d < 1" + "0" * 399, SqlError, "too large"),
        ("d < 1" + "0" * 500, SqlError, "digits"),
        ("e > 3", SqlError, "there is no column 'e' in table t"),
        ("u.d > 3", SqlError, "there is no table 'u'"),
        ("i + 1 > 3", NotSupported, "the column alone on its side"),
        ("i > d", NotSupported, "the column alone on its side"),
        ("s LIKE 'a%'", NotSupported, "a pattern"),
        ("upper(s) = 'A'", NotSupported, "the column alone on its side"),
        ("m > CURRENT_TIMESTAMP", NotSupported, "the present time"),
        ("m > now()", NotSupported, "the present time"),
        ("i IN (SELECT k FROM t)", NotSupported, "write the values"),
        ("i > (SELECT MIN(k) FROM t)", NotSupported, "a query inside a condition"),
        ("EXISTS (SELECT 1)", NotSupported, "a query inside a condition"),
    ],
)
def test_refused(condition: str, kind: type[SqlError], message: str) -> None:
    with pytest.raises(SqlError) as caught:
        region_of(condition)
    assert type(caught.value) is kind
    assert message in caught.value.message


def test_instants_are_utc() -> None:
    (box,) = region_of("m = '2026-06-01 12:00:00+02:00'").boxes
    expected = int(instant(datetime(2026, 6, 1, 10, tzinfo=UTC)))
    assert box.extent("m") == Interval(expected, expected)
