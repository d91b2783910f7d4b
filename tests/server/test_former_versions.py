"""Data folders that earlier versions wrote, one for each change of a format: they open, and all in them is right.

`fixtures/<commit>.tar.gz` is the folder of a node as that commit left it: two tables, four named subscriptions, a
client's cache, a token, a snapshot, and rows in the log after it.
"""

import math
import tarfile
from pathlib import Path

import httpx
import msgspec
import pytest

import slackwater
from slackwater.core.durable_file import sealed, unsealed
from slackwater.processing import state
from slackwater.server.node import Node, NodeSettings
from tests.support.server_process import ServerProcess

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.tar.gz"))
TOKEN = "sw_a8376e63b704_6zbG997yex5gNj9wJ_-zGavEqkmrb4MlBQ9FnWtG6g4"
_MAGIC = b"SWSNAP01"


def prices() -> dict[str, float | None]:
    found: dict[str, float | None] = {f"S{n}": 1.5 * n for n in range(40)}
    return found | {"S2": 9.0, "S39": None, "S4": 100.0}


@pytest.fixture(params=FIXTURES, ids=lambda path: path.name.partition(".")[0])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        # Python 3.11.0 to 3.11.3 have no filters, and no argument for them; later ones want to be told.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    return tmp_path / "node"


async def test_a_server_opens_it(folder: Path) -> None:
    truth = prices()
    with ServerProcess(folder) as server:
        assert httpx.get(f"{server.url}/v1/tables").status_code == 401, "there is a token"
        async with slackwater.connect(server.url, token=TOKEN) as client:
            shown = await client.query("SELECT COUNT(*) AS n FROM quotes JOIN holdings USING (symbol)")
            assert shown.value == 20
            standing = {one.name: one for one in await client.subscriptions()}
            assert {*standing} == {"total", "weighted", "dear", "held", None}
            assert standing[None].sql == "CACHE desk-7 OF quotes LIMIT 100"
            total = await client.subscribe("total").ready(20)
            even = math.fsum(truth[f"S{n}"] or 0.0 for n in range(0, 40, 2))
            assert abs((total.value or 0.0) - even) <= 10
            weighted = await client.subscribe("weighted").ready(20)
            assert abs((weighted.value or 0.0) - (2 * 1.5 + 4 * 4.5)) <= 5
            dear = await client.subscribe("dear").ready(20)
            rows = {row["symbol"]: row["price"] for row in dear.rows}
            assert rows == {symbol: price for symbol, price in truth.items() if price is not None and price > 50}
            held = await client.subscribe("held").ready(20)
            assert {row["holdings.id"] for row in held.rows} == {*range(3, 13)}
            receipt = await client.ingest("quotes", [{"symbol": "S1", "price": 1000.0, "sector": "b"}])
            await weighted.reached(receipt.position, 20)
            assert weighted.value == 2 * 1000.0 + 4 * 4.5


@pytest.mark.parametrize("missing", ["BoundedAggregates", "Selections", "StandingJoins"])
def test_a_snapshot_that_lacks_an_operator_is_rebuilt(folder: Path, missing: str) -> None:
    [path] = (folder / "snapshots").iterdir()
    body = unsealed(_MAGIC, path.read_bytes())
    assert body is not None
    parts = msgspec.msgpack.decode(body)
    host = state.unpack("host", parts["host"] if isinstance(parts, dict) else parts[3])
    host["operators"] = [one for one in host["operators"] if one[0] != missing]
    if missing == "StandingJoins":
        host.pop("joins", None)
    without = {**parts, "host": state.pack("host", host)}
    path.write_bytes(sealed(_MAGIC, msgspec.msgpack.encode(without)))
    node = Node(NodeSettings(folder))
    try:
        assert node.snapshot_position > 0, "the snapshot was used"
        assert set(node.engine.host.rebuilt) == {missing}
        named = {one.name: number for number, one in node.engine.registrations.items()}
        assert len(node.engine.host.answer(named["held"]).rows or ()) == 10
        assert len(node.engine.host.answer(named["dear"]).rows or ()) == 6
        assert node.engine.host.answer(named["weighted"]).value == 2 * 1.5 + 4 * 4.5
    finally:
        node.close()
