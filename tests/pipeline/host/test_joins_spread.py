"""Standing joins on Spark, spread by their rows: what a node says, byte by byte, and what nested loops find."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from slackwater.core import HostKind, Interval, Join, StandingQuery
from slackwater.core.region import Region
from slackwater.hosting import publication
from slackwater.hosting.engine import QueryEngine
from slackwater.kinds.join.schema import called
from slackwater.kinds.registry import answer_table, plain_query
from slackwater.log import LocalLog, Registered
from slackwater.pipeline.host.executor_affinity import OnExecutors
from slackwater.pipeline.host.join_cuts import CutRule
from slackwater.pipeline.host.spark_host import SparkHost
from slackwater.processing.base import Rows
from slackwater.processing.columns import python_rows
from slackwater.processing.joined import STAYS, StandingJoins, lowered
from tests.support.join_histories import NUMBERS, SHOWN, WHOLE, JoinHistory
from tests.support.spark_workers import Workers, run

EAGER = CutRule(every=2, least_rows=2, most_reach=1.0, skew=1.2)
"""Everything that can be cut is, and again as soon as it is uneven."""


class Wilder(JoinHistory):
    """With bands that are open on one side, and keys of all types, some of them frequent."""

    def _query(self, table: str | None = None) -> StandingQuery:
        query = super()._query(table)
        if isinstance(query, Join) and query.band is None and self.random.random() < 0.5:
            names = ("price", "celsius") if query.left == "quotes" else ("celsius", "price")
            if self.random.random() < 0.5:
                names = ("symbol", "door") if query.left == "quotes" else ("door", "symbol")
            return Join(query.left, query.right, *names, query.columns, None, query.left_region, query.right_region)
        if isinstance(query, Join) and query.band is not None and self.random.random() < 0.1:
            band = Interval(query.band.low, None)
            return Join(
                query.left,
                query.right,
                query.left_column,
                query.right_column,
                query.columns,
                band,
                query.left_region,
                query.right_region,
            )
        return query

    def _row(self, table: Any) -> tuple[bool | int | float | str | None, ...]:
        row = list(super()._row(table))
        if table.name == "rooms" and self.random.random() < 0.5:
            row[1] = f"S{self.random.randrange(4)}"
        if self.random.random() < 0.4:
            row[1 if table.name == "quotes" else 2] = float(self.random.choice([40, 40, 45]))
        return tuple(row)


class Mirrored(Wilder):
    """Half of the joins are of a table with itself."""

    def _query(self, table: str | None = None) -> StandingQuery:
        query = super()._query(table)
        if not isinstance(query, Join) or self.random.random() < 0.5:
            return query
        one = query.left
        names = [*SHOWN[one], *(name.replace(one, f"{one}_2", 1) for name in SHOWN[one])]
        shown = tuple(self.random.sample(names, self.random.randint(1, len(names))))
        numbers = (NUMBERS if query.band is not None or self.random.random() < 0.5 else WHOLE)[one]
        return Join(one, one, numbers, numbers, shown, query.band, self._range(one), self._range(one))


def nested_loops(query: Join, engine: QueryEngine) -> list[str]:
    """The answer as it is defined."""
    tables = [engine.host.latest(name) for name in query.tables]
    rows = [
        [
            {column.name: value for column, value in zip(table.schema.columns, row, strict=True)}
            for row in python_rows(table.rows)
        ]
        for table in tables
    ]
    keys = [table.schema.key for table in tables]
    found, names = [], called(query.left, query.right)
    for ours in rows[0]:
        for theirs in rows[1]:
            a, b = ours[query.left_column], theirs[query.right_column]
            if a is None or b is None:
                continue
            fits = a == b if query.band is None else holds(query.band, float(b) - float(a))
            if fits and selects(query.left_region, ours) and selects(query.right_region, theirs):
                both = {f"{names[0]}.{k}": v for k, v in ours.items()}
                both |= {f"{names[1]}.{k}": v for k, v in theirs.items()}
                whose = [f"{t}.{k}" for t, own in zip(names, keys, strict=True) for k in own]
                found.append(repr(tuple(both[name] for name in dict.fromkeys((*whose, *query.columns)))))
    return sorted(found)


def holds(interval: Interval, value: Any) -> bool:
    low, high = interval.low, interval.high
    above = low is None or value > low or (value == low and not interval.low_open)
    return above and (high is None or value < high or (value == high and not interval.high_open))


def selects(region: Region, row: dict[str, Any]) -> bool:
    [box] = region.boxes
    return all(row[side.column] is not None and holds(side.extent, row[side.column]) for side in box.sides)  # type: ignore[arg-type]


class Looking:
    """Compares what was said with nested loops after every batch, and counts what there was to see."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._epochs: set[tuple[str, int]] = set()

    def __call__(self, host: SparkHost, engine: QueryEngine) -> None:
        replica = host._publications.replica
        for number, query in replica.queries.items():
            if isinstance(query, Join):
                rows = replica.answer(number).rows
                assert rows is not None
                names = [*dict.fromkeys((*replica.schema(answer_table(query)).key, *query.columns))]
                assert sorted(map(repr, python_rows(rows.select(names)))) == nested_loops(query, engine)
                self.seen["answers"] += 1
                self.seen["pairs"] += rows.num_rows
        self.seen["cut"] += bool(host.sharding.lines)
        self.seen["mirrored and cut"] += any(one.line.left == one.line.right for one in host.sharding.lines)
        which = (str(host._folder), hash(host.sharding.lines))
        if which not in self._epochs:
            self._epochs.add(which)
            self.seen["recut"] += 1


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many pairs moved from shard to shard."""
    counts: Counter[str] = Counter()
    plain = publication._settled

    def counted(said: Rows) -> Rows:
        made = plain(said)
        counts["moved and the same"] += int(np.count_nonzero(said.kinds == STAYS)) and len(said) - len(made)
        counts["moved"] += len(said) - len(made)
        return made

    monkeypatch.setattr(publication, "_settled", counted)
    return counts


def told_in_hardship(history: Callable[[int], Wilder], seeds: range, folder: Path) -> "Looking":
    """Histories in which workers die and hosts are started again; what was seen on the way."""
    looking = Looking()
    for seed in seeds:
        run(
            seed,
            folder / str(seed),
            Workers(seed, deaths=0.1),
            batches=20,
            restarts=0.15,
            history=history(seed),
            shards=2 + seed % 2,
            spreading=EAGER,
            look=looking,
        )
    return looking


def test_what_is_said_is_what_a_node_says(tmp_path: Path, settled: Counter[str]) -> None:
    """Whatever dies, however often the lines are cut again; and pairs whose left row moves are said once, if at all."""
    looking = told_in_hardship(Wilder, range(4), tmp_path)
    assert looking.seen["cut"] > 40
    assert looking.seen["recut"] > 15
    assert looking.seen["pairs"] > 1000
    assert settled["moved"] > 30


def test_a_table_joined_with_itself_is_spread_too(tmp_path: Path, settled: Counter[str]) -> None:
    looking = told_in_hardship(Mirrored, range(40, 42), tmp_path)
    assert looking.seen["mirrored and cut"] > 20
    assert looking.seen["pairs"] > 500
    assert settled["moved"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 130))
def test_what_is_said_is_what_a_node_says_often(seed: int, tmp_path: Path) -> None:
    run(
        seed,
        tmp_path,
        Workers(seed, deaths=0.2),
        batches=20,
        restarts=0.2,
        history=(Wilder if seed % 2 else Mirrored)(seed),
        shards=2 + seed % 3,
        spreading=EAGER,
        look=Looking(),
    )


def test_joins_that_are_spread_by_rows_are_not_moved_for_balance(tmp_path: Path) -> None:
    """Giving them to another shard would change nothing but who tells new subscribers the answer."""
    history = Wilder(5)
    join = Join("quotes", "rooms", "price", "celsius", ("quotes.symbol",), Interval(-3.0, 3.0))
    spark = HostKind.SPARK.value
    with LocalLog(tmp_path / "log") as log:
        log.append([*history.beginning(), Registered("quotes", "", "ann", query=plain_query(join), host=spark)])
        with SparkHost(tmp_path / "log", tmp_path / "host", Workers(5), shards=2, spreading=EAGER) as host:
            weights = []
            for _ in range(6):
                assert host.batch()
                weights.append(sum(host._weights.values()))
                log.append([history._updates(25)])
            assert host.sharding.lines
            assert weights[0] == 1
            assert weights[-1] == 0


@pytest.mark.parametrize("before", [0, 1])
def test_joins_are_spread_whichever_shard_keeps_them(before: int, tmp_path: Path) -> None:
    """One shard looks at how the rows lie; the only join is its own, or the other's."""
    history = Wilder(5)
    join = Join("quotes", "rooms", "price", "celsius", ("quotes.symbol",), Interval(-3.0, 3.0))
    registered = Registered("quotes", "", "ann", query=plain_query(join), host=HostKind.SPARK.value)
    with LocalLog(tmp_path / "log") as log:
        log.append([*history.beginning(), *[history._updates(1)] * before, registered])
        with SparkHost(tmp_path / "log", tmp_path / "host", Workers(6), shards=2, spreading=EAGER) as host:
            for _ in range(8):
                assert host.batch()
                log.append([history._updates(25)])
            [number] = host._publications.replica.queries
            assert host.sharding.shard_of(number) == before
            assert host.sharding.lines


def test_shapes_that_are_too_many_are_kept_by_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All shards agree on which."""
    monkeypatch.setattr(StandingJoins, "most_shapes", 3)
    seen: list[int] = []

    def look(host: SparkHost, engine: QueryEngine) -> None:
        kept = host._publications.replica.queries
        assert kept.keys() == engine.registrations.keys()
        seen.append(len({lowered(query)[0] for query in kept.values() if isinstance(query, Join)}))

    run(7, tmp_path, Workers(7, deaths=0.1), batches=15, restarts=0.2, history=Wilder(7), spreading=EAGER, look=look)
    assert max(seen) == 3


def test_on_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    looking = Looking()
    runner = OnExecutors(spark.sparkContext)
    run(2_990, tmp_path, runner, batches=6, history=Wilder(2_990), spreading=EAGER, look=looking)
    assert looking.seen["cut"] > 3


@pytest.mark.slow
def test_on_spark_for_longer(spark: SparkSession, tmp_path: Path) -> None:
    """5 histories of 20 batches."""
    looking = Looking()
    for seed in range(5):
        runner, history = OnExecutors(spark.sparkContext), Wilder(3_000 + seed)
        run(
            3_000 + seed,
            tmp_path / str(seed),
            runner,
            batches=20,
            history=history,
            shards=2 + seed % 2,
            spreading=EAGER,
            look=looking,
        )
    assert looking.seen["cut"] > 50
