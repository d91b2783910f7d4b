"""A replica that reads a stream has the rows of the table, whatever happened to them and however they were sliced."""

import os
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import Column, DataType, Instant, Operation, Origin, Position, TableSchema, Update
from slackwater.core.arrow import to_batch
from slackwater.core.extent import Interval
from slackwater.core.region import Box, Region, Side
from slackwater.processing.host import Host
from slackwater.processing.regions import inside
from slackwater.server.oneshot import row_stream as streams_module
from slackwater.server.oneshot.base import PRESENT
from slackwater.server.oneshot.replica import TableReplica
from slackwater.server.oneshot.rights import masked
from slackwater.server.oneshot.row_stream import RowStreams

TABLE = TableSchema(
    "things",
    (
        Column("k", DataType.BIGINT, nullable=False),
        Column("name", DataType.TEXT),
        Column("hot", DataType.BOOLEAN),
        Column("price", DataType.DOUBLE),
        Column("at", DataType.TIMESTAMP),
    ),
    ("k",),
)
TEXTS = st.one_of(st.none(), st.text(max_size=6), st.text(alphabet="abcé🙂", min_size=10, max_size=40))
ROWS = st.tuples(
    st.integers(0, 40),
    TEXTS,
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), st.floats(-1e6, 1e6)),
    st.one_of(st.none(), st.integers(0, 10**15)),
    st.booleans(),
)
STEPS = st.lists(st.one_of(st.lists(ROWS, min_size=1, max_size=30), st.sampled_from(["read", "slice"])), max_size=12)


class World:
    """A host that publishes, and a worker that reads."""

    def __init__(self) -> None:
        self.host = Host()
        self.host.define(TABLE, Position(1))
        self.streams = RowStreams(self.host)
        self.host.watchers.append(self.streams.note)
        self.sequence = 0
        self.replica: TableReplica | None = None

    def fold(self, rows: list[tuple[Any, ...]]) -> None:
        updates = []
        for *row, gone in rows:
            self.sequence += 1
            operation = Operation.DELETE if gone else Operation.UPSERT
            updates.append(Update("things", tuple(row), Instant(self.sequence), Origin("s", self.sequence), operation))
        self.host.apply("things", to_batch(TABLE, updates), Position(self.host.position + len(updates)))

    def read(self) -> pa.Table:
        found = self.streams.complete(["things"])["things"]
        if self.replica is None or self.replica.number != found.number:
            if self.replica is not None:
                self.replica.close()
            self.replica = TableReplica(found.number, found.schema, os.dup(found.descriptor))
        self.replica.read(found.end)
        return self.replica.rows()

    def close(self) -> None:
        self.streams.close()
        if self.replica is not None:
            self.replica.close()


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    found = rows.cast(pa.schema([(f.name, pa.string() if f.type == pa.string_view() else f.type) for f in rows.schema]))
    cells = found.to_pylist()
    return [{name: row[name] for name in row if name != PRESENT} for row in cells if row.get(PRESENT, True)]


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([3, 8, 1000]), st.sampled_from([20, 100_000]))
def test_a_replica_equals_its_table(steps: list[Any], piece: int, least: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams_module, "SLICE", piece)
        patch.setattr(streams_module, "_LEAST_ROWS", least)
        world = World()
        try:
            for step in [*steps, "read"]:
                if step == "read":
                    found = world.read()
                    found.validate(full=True)
                    assert plain(found) == world.host.latest("things").rows.to_pylist()
                elif step == "slice":
                    world.streams.next_slice(["things"])
                else:
                    world.fold(step)
        finally:
            world.close()


def test_a_stream_that_grew_is_replaced_and_one_of_a_new_table_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "_LEAST_ROWS", 10)
    world = World()
    world.fold([(k, "x", True, 1.0, None, False) for k in range(10)])
    world.read()
    assert world.replica is not None
    first = world.replica.number
    for value in range(4):
        world.fold([(k, "x", True, float(value), None, False) for k in range(10)])
        assert plain(world.read()) == world.host.latest("things").rows.to_pylist()
    assert world.replica.number > first
    assert not world.streams.is_current("things", first)
    second = world.replica.number
    world.host.drop("things", Position(100))
    world.host.define(TABLE, Position(101))
    assert plain(world.read()) == []
    assert world.replica.number > second
    # More changed than a new stream would cost.
    third = world.replica.number
    for value in range(4):
        world.fold([(k, "x", True, float(value), None, False) for k in range(10)])
    assert not world.streams.is_current("things", third)
    assert plain(world.read()) == world.host.latest("things").rows.to_pylist()
    world.close()


def test_a_stream_of_few_long_rows_is_replaced_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "_LEAST_BYTES", 10_000)
    world = World()
    largest = 0
    for value in range(100):
        world.fold([(1, "x" * 5_000, True, float(value), None, False)])
        assert plain(world.read()) == world.host.latest("things").rows.to_pylist()
        largest = max(largest, world.streams.bytes)
    assert largest < 50_000
    # A large table has a long stream, which is not replaced for that.
    world.fold([(k, "x" * 5_000, True, 0.0, None, False) for k in range(20)])
    world.read()
    world.fold([(k, "x" * 5_000, True, 0.5, None, False) for k in range(20)])
    world.read()
    assert world.replica is not None
    number = world.replica.number
    for value in range(10):
        world.fold([(1, "x", True, float(value), None, False)])
        assert plain(world.read()) == world.host.latest("things").rows.to_pylist()
    assert world.replica.number == number
    world.close()


def test_the_stream_of_a_dropped_table_goes_with_the_next_question() -> None:
    world = World()
    world.fold([(1, "x", True, 1.0, None, False)])
    former = world.streams.complete(["things"])["things"]
    other = TableSchema("others", TABLE.columns, TABLE.key)
    world.host.define(other, Position(50))
    world.host.drop("things", Position(51))
    assert world.streams.complete(["others"]).keys() == {"others"}
    assert not world.streams.is_current("things", former.number)
    assert former.descriptor == -1
    world.close()


def test_a_slice_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "SLICE", 4)
    world = World()
    world.fold([(k, "x", True, 1.0, None, False) for k in range(15)])
    written = []
    while world.streams.next_slice(["things"]):
        written.append(world.streams.rows)
        # Meanwhile it changes on.
        world.fold([(k, "y", True, 2.0, None, False) for k in (0, 14)])
        assert len(written) < 50
    assert all(after - before <= 4 for before, after in zip([0, *written], written, strict=False))
    assert plain(world.read()) == world.host.latest("things").rows.to_pylist()
    world.close()


@pytest.mark.parametrize("deleted", [False, True])
def test_rights_are_those_of_the_server(deleted: bool) -> None:
    world = World()
    world.fold([(k, f"name {k}", k % 2 == 0, float(k), None, False) for k in range(20)])
    if deleted:
        world.fold([(3, None, None, None, None, True)])
    region = Region((Box.of(Side("price", Interval(2.0, 9.0))), Box.of(Side("name", Interval("name 15", "name 17")))))
    rows = world.host.latest("things").rows
    allowed = rows.filter(pa.array(inside(region, TABLE, rows)))
    assert allowed.num_rows > 5
    assert plain(masked(world.read(), region, TABLE)) == allowed.to_pylist()
    world.close()


def test_times_are_instants() -> None:
    world = World()
    world.fold([(1, None, None, None, 1_000_000, False)])
    assert world.read().column("at").to_pylist() == [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]
    world.close()
