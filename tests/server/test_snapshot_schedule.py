"""Snapshots of a running node: the state of one position, written beside the event loop where it is large."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.core import Column, DataType, Position, TableSchema
from slackwater.core.arrow import INSTANT, update_schema
from slackwater.log import Record, TableDefined, Updates
from slackwater.server import snapshot_schedule
from slackwater.server.node import Node, NodeSettings

TABLE = TableSchema("items", (Column("k", DataType.TEXT, nullable=False), Column("v", DataType.DOUBLE)), key=("k",))


def rows(first: int, count: int) -> Updates:
    numbers = pa.array(range(first, first + count), pa.int64())
    columns = [
        pa.array([f"k{number}" for number in range(count)]),
        numbers.cast(pa.float64()),
        pa.array([0] * count, pa.int8()),
        numbers.cast(INSTANT),
        pa.array(["test"] * count),
        numbers,
    ]
    return Updates("items", pa.RecordBatch.from_arrays(columns, schema=update_schema(TABLE)))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def appended(node: Node, *records: Record) -> Position:
    """Append records; returns the position at which they were applied."""
    end = await node.change(lambda target: target.log.append(records))
    await until(lambda: node.engine.position == end)
    return end


@pytest.mark.parametrize("small", [0, 10_000], ids=["beside", "by itself"])
async def test_it_is_the_state_of_its_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    """Rows come while it is written, and what is restored is as the node was at the position."""
    monkeypatch.setattr(snapshot_schedule, "SMALL", small)
    monkeypatch.setattr(snapshot_schedule, "LOOK_SECONDS", 0.01)
    states: dict[int, bytes] = {}
    node = Node(NodeSettings(tmp_path / "node", snapshot_every=100))
    draft = node.snapshots.folder / f"{3:020d}.snapshot.draft"
    draft.parent.mkdir(parents=True)
    draft.write_bytes(b"what a killed process has left")
    node.start(lambda: None)
    await appended(node, TableDefined(TABLE))
    taken: set[Position] = set()
    for turn in range(40):
        end = await appended(node, rows(turn * 50, 50))
        states[end] = node.engine.snapshot(node.generation)
        await asyncio.sleep(0.005)
        taken.add(node.snapshot_position)
    assert len(taken) > 2
    assert not draft.exists()
    kept = list(node.snapshots.read(Position(0), node.log.end))
    assert kept
    for one in kept:
        assert one.state == states[one.position]
        assert one.place == node.engine.lineage.place(one.position)
    await node.stop()
    again = Node(NodeSettings(tmp_path / "node"))
    assert again.snapshot_position == again.engine.position
    again.close()


async def test_a_process_that_fails_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(snapshot_schedule, "SMALL", 0)
    monkeypatch.setattr(snapshot_schedule, "LOOK_SECONDS", 0.01)
    node = Node(NodeSettings(tmp_path / "node", snapshot_every=1))
    node.start(lambda: None)
    (tmp_path / "node" / "snapshots").write_text("in the way")
    end = await appended(node, TableDefined(TABLE), rows(0, 5))
    await until(lambda: "no snapshot at" in caplog.text)
    assert node.snapshot_position == 0
    (tmp_path / "node" / "snapshots").unlink()
    await asyncio.sleep(0.1)
    assert node.snapshot_position == 0, "not before the pause"
    node.schedule.not_before = 0.0
    await until(lambda: node.snapshot_position == end)
    await node.stop()
