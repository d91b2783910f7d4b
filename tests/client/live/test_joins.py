"""Standing joins end to end: a real server, real sockets, and answers that equal recomputation at their positions."""

from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

import slackwater
from slackwater.client import Client, Subscription
from slackwater.core.errors import SlackwaterError
from tests.support.server_process import ServerProcess

TABLES = {
    "unit": "CREATE TABLE unit{n} (id BIGINT PRIMARY KEY, pos DOUBLE, speed BIGINT)",
    "target": "CREATE TABLE target{n} (id BIGINT PRIMARY KEY, pos DOUBLE, worth DOUBLE)",
    "supply": "CREATE TABLE supply{n} (id BIGINT PRIMARY KEY, product TEXT, quantity BIGINT)",
    "demand": "CREATE TABLE demand{n} (id BIGINT PRIMARY KEY, product TEXT, quantity BIGINT)",
}
QUERIES = [
    "SUBSCRIBE SELECT * FROM unit{n} JOIN target{n} ON target{n}.pos - unit{n}.pos BETWEEN -3 AND 5",
    "SUBSCRIBE SELECT u.id, t.id FROM unit{n} u JOIN target{n} t ON t.pos - u.pos > 2 "
    "WHERE u.speed >= 2 AND t.worth < 6",
    "SUBSCRIBE SELECT * FROM supply{n} s JOIN demand{n} d USING (product) "
    "WHERE s.quantity BETWEEN 1 AND 9 AND d.quantity BETWEEN 2 AND 5",
    "SUBSCRIBE SELECT d.id, s.quantity, s.id FROM supply{n} s JOIN demand{n} d ON s.product = d.product",
]


class Tables:
    """The rows as they should be."""

    def __init__(self, seed: int, names: dict[str, str]) -> None:
        self.random = Random(seed)
        self.names = names
        self.rows: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in names}

    def row(self, table: str) -> dict[str, Any]:
        random = self.random
        row: dict[str, Any] = {"id": random.randrange(12)}
        if table in ("supply", "demand"):
            return row | {"product": random.choice(["tea", "rum", "ä", None]), "quantity": random.randint(0, 10)}
        row["pos"] = random.choice([None, *(n / 2 for n in range(30))])
        return row | ({"speed": random.randint(0, 5)} if table == "unit" else {"worth": random.randint(0, 10) / 1})

    async def change(self, client: Client) -> int:
        table = self.random.choice(sorted(self.names))
        gone = self.random.random() < 0.3
        rows = list({row["id"]: row for row in (self.row(table) for _ in range(self.random.randint(1, 6)))}.values())
        sent = [{"id": row["id"]} for row in rows] if gone else rows
        receipt = await client.ingest(self.names[table], sent, delete=gone)
        for row in rows:
            self.rows[table].pop(row["id"], None)
            if not gone:
                self.rows[table][row["id"]] = row
        return int(receipt.position)

    def pairs(self, nth: int) -> list[tuple[Any, ...]]:
        left, right = ("unit", "target") if nth < 2 else ("supply", "demand")
        found = []
        for a in self.rows[left].values():
            for b in self.rows[right].values():
                shown: tuple[Any, ...]
                if nth < 2:
                    if a["pos"] is None or b["pos"] is None:
                        continue
                    far = b["pos"] - a["pos"]
                    fits = -3 <= far <= 5 if nth == 0 else far > 2 and a["speed"] >= 2 and b["worth"] < 6
                    shown = (*a.values(), *b.values()) if nth == 0 else (a["id"], b["id"])
                else:
                    fits = a["product"] is not None and a["product"] == b["product"]
                    if nth == 2:
                        fits = fits and 1 <= a["quantity"] <= 9 and 2 <= b["quantity"] <= 5
                    shown = (b["id"], a["quantity"], a["id"])
                    if nth == 2:
                        shown = (*a.values(), b["id"], b["quantity"])
                if fits:
                    found.append(shown)
        return sorted(found, key=repr)


def shown(subscription: Subscription) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in subscription.rows), key=repr)


@pytest.mark.parametrize("seed", [1, 2])
async def test_answers_equal_recomputation(client: Client, client_server: ServerProcess, seed: int) -> None:
    names = {table: f"{table}{seed}" for table in TABLES}
    for sql in TABLES.values():
        await client.execute(sql.format(n=seed))
    tables = Tables(seed, names)
    for _ in range(10):
        await tables.change(client)
    live = [await client.subscribe(sql.format(n=seed)).ready(20) for sql in QUERIES]
    for _ in range(25):
        position = await tables.change(client)
        for nth, subscription in enumerate(live):
            told = await subscription.reached(position, 20)
            assert told.as_of == position
            assert shown(subscription) == tables.pairs(nth), QUERIES[nth]
    late = await client.subscribe(QUERIES[0].format(n=seed).replace("5", "4.75", 1)).ready(20)
    assert late.certain
    assert {row[f"unit{seed}.id"] for row in late.rows} <= set(range(12))
    # What EXPLAIN says of the family, as text and as a tree.
    explained = await client.explain(QUERIES[2].format(n=seed))
    for words in ("select-join", "matching", "joins of this shape: 1", "stabbing groups: 2", "hot share", "routes"):
        assert words in str(explained), str(explained)
    [matching] = [part for part in explained.tree["parts"] if part["name"] == "matching"]
    assert matching["details"]["rows matched"] > 0
    shares = [detail["value"] for detail in matching["parts"][0]["details"].values()]
    assert sum(shares) == pytest.approx(100)
    # Hotspots over time.
    answer = httpx.get(f"{client_server.url}/v1/joins").raise_for_status().json()
    mine = [one for one in answer["families"] if one["left"] in names.values()]
    assert sorted(one["kind"] for one in mine) == ["band", "band", "select", "select"]
    for one in mine:
        positions = [moment["position"] for moment in one["history"]]
        assert positions == sorted(positions)
        assert one["now"]["queries"] >= 1
        assert sum(route["share"] for route in one["routes"]) == pytest.approx(1)
        assert one["hotspots"]
    band = next(one for one in mine if one["kind"] == "band" and not one["ranges"])
    assert band["now"]["queries"] == 2


async def test_a_table_of_a_join_cannot_go(client: Client) -> None:
    for table in ("unit", "target"):
        await client.execute(TABLES[table].format(n="kept"))
    await client.execute(QUERIES[0].format(n="kept").replace("SUBSCRIBE", "SUBSCRIBE pairs AS"))
    [listed] = [one for one in await client.subscriptions() if one.name == "pairs"]
    assert listed.kind == "join"
    for table in ("unitkept", "targetkept"):
        with pytest.raises(SlackwaterError, match="drop them first"):
            await client.execute(f"DROP TABLE {table}")
    await client.execute("DROP SUBSCRIPTION pairs")
    await client.execute("DROP TABLE targetkept")


async def test_joins_go_on_after_a_restart(tmp_path: Path) -> None:
    """A snapshot has the queries and the tables; the matcher is filled with the first rows that come."""
    tables = Tables(5, {table: table for table in TABLES})
    for run in range(2):
        with ServerProcess(tmp_path / "node", "--lease", "1") as server:
            async with slackwater.connect(server.url) as client:
                if run == 0:
                    for sql in TABLES.values():
                        await client.execute(sql.format(n=""))
                    for nth in (0, 2):
                        await client.execute(QUERIES[nth].format(n="").replace("SUBSCRIBE", f"SUBSCRIBE pairs{nth} AS"))
                live = {nth: await client.subscribe(f"pairs{nth}").ready(20) for nth in (0, 2)}
                for nth, subscription in live.items():
                    assert shown(subscription) == tables.pairs(nth)
                for _ in range(12):
                    position = await tables.change(client)
                    for nth, subscription in live.items():
                        await subscription.reached(position, 20)
                        assert shown(subscription) == tables.pairs(nth)
        assert "Traceback" not in server.report()
    assert tables.pairs(0)


async def test_a_join_of_everything_with_everything_hurts_nobody(client: Client) -> None:
    """It is refused, over both ways in, and the server goes on."""
    for table in ("unit", "target"):
        await client.execute(TABLES[table].format(n="large"))
        rows = [{"id": k, "pos": float(k)} for k in range(1_001)]
        receipt = await client.ingest(f"{table}large", rows)
    every = "SUBSCRIBE SELECT u.id, t.id FROM unitlarge u JOIN targetlarge t ON t.pos - u.pos < 1e300"
    with pytest.raises(SlackwaterError, match="1,002,001 pairs"):
        await client.subscribe(every).ready(20)
    with pytest.raises(SlackwaterError, match="1,002,001 pairs"):
        await client.execute(every.replace("SUBSCRIBE", "SUBSCRIBE every AS"))
    near = await client.subscribe(every.replace("< 1e300", "= 1")).ready(20)
    assert len(near.rows) == 1_000
    assert (near.as_of or 0) >= receipt.position


async def test_a_table_is_joined_with_itself(client: Client) -> None:
    await client.execute(TABLES["unit"].format(n="alone"))
    await client.ingest("unitalone", [{"id": k, "pos": float(k), "speed": k % 3} for k in range(6)])
    near = "SUBSCRIBE SELECT a.id, b.id FROM unitalone a JOIN unitalone b ON b.pos - a.pos BETWEEN 0 AND 1"
    alike = "SUBSCRIBE SELECT * FROM unitalone AS a JOIN unitalone AS b USING (speed) WHERE a.id < 2"
    live = [await client.subscribe(sql).ready(20) for sql in (near, alike)]
    assert [len(one.rows) for one in live] == [11, 4]
    receipt = await client.ingest("unitalone", [{"id": 3, "pos": 5.0, "speed": 1}])
    for one in live:
        await one.reached(receipt.position, 20)
    assert {(row["unitalone.id"], row["unitalone_2.id"]) for row in live[0].rows} == {
        *((k, k) for k in range(6)), (0, 1), (1, 2), (4, 5), (4, 3), (3, 5), (5, 3),
    }  # fmt: skip
    assert {(row["unitalone.id"], row["unitalone_2.id"]) for row in live[1].rows} == {(0, 0), (1, 1), (1, 3), (1, 4)}
    explained = str(await client.explain(near))
    assert "unitalone_2.pos - unitalone.pos" in explained
