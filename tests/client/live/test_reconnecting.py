"""What a client shows while servers die and come back."""

import asyncio
from pathlib import Path

import slackwater
from slackwater.client import Client, Subscription
from tests.support.server_process import ServerProcess

TABLE = "CREATE TABLE quotes (symbol TEXT PRIMARY KEY, price DOUBLE)"


class Watch:
    """Looks at subscriptions all the time and notes what must never be seen."""

    def __init__(self, *subscriptions: Subscription) -> None:
        self._subscriptions = subscriptions
        self._latest = [-1] * len(subscriptions)
        self.wrong: list[str] = []
        self.looks = 0

    async def run(self) -> None:
        while True:
            for place, one in enumerate(self._subscriptions):
                shown = one.shown
                self.looks += 1
                if shown.as_of is not None:
                    if shown.as_of < self._latest[place]:
                        self.wrong.append(f"{one!r} went back from {self._latest[place]} to {shown.as_of}")
                    self._latest[place] = shown.as_of
                if shown.certain is bool(shown.why):
                    self.wrong.append(f"certain is {shown.certain} and why is {shown.why!r}")
            await asyncio.sleep(0.002)


async def test_killed_and_started_again(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "node", "--lease", "0.6") as server:
        async with slackwater.connect(server.url, patience=30) as client:
            await client.execute(TABLE)
            total = client.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 3")
            exact = client.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 0")
            every = client.subscribe("SUBSCRIBE SELECT * FROM quotes")
            cheap = client.subscribe("SUBSCRIBE SELECT symbol FROM quotes WHERE price < 50")
            watch = Watch(total, exact, every, cheap)
            watching = asyncio.create_task(watch.run())
            truth: dict[str, float] = {}
            followed: dict[str, float] = {}
            following = asyncio.create_task(_follow(every, followed))
            await exact.ready(20)
            for round_number in range(2):
                sending = asyncio.create_task(_send(client, truth, round_number))
                await asyncio.sleep(0.1)
                server.kill()
                for one in (total, exact, every, cheap):
                    shown = await one.wait_until(lambda shown: not shown.certain, 10)
                    assert "lease ended" in shown.why
                # In a thread: the client goes on while the server starts.
                await asyncio.to_thread(server.start)
                position = await sending
                for one in (total, exact, every, cheap):
                    await one.reached(position, 20)
                    await one.wait_until(lambda shown: shown.certain, 20)
                assert {row["symbol"]: row["price"] for row in every.rows} == truth
                assert {row["symbol"] for row in cheap.rows} == {key for key, price in truth.items() if price < 50}
                assert exact.value == sum(truth.values())
                assert total.value is not None
                assert abs(total.value - sum(truth.values())) <= 3
            async with asyncio.timeout(5):
                while followed != truth:
                    await asyncio.sleep(0.01)
            watching.cancel()
            following.cancel()
            await asyncio.gather(watching, following, return_exceptions=True)
            assert watch.looks > 100
            assert watch.wrong == []


async def _send(client: Client, truth: dict[str, float], round_number: int) -> int:
    """Rows in small pieces, over the moment when the server is killed; each is taken exactly once."""
    position = 0
    for piece in range(12):
        rows = {
            f"S{(round_number * 7 + piece * 3 + n) % 40}": float((piece * n + round_number) % 100) for n in range(5)
        }
        receipt = await client.ingest("quotes", [{"symbol": key, "price": price} for key, price in rows.items()])
        assert receipt.accepted + receipt.repeats == len(rows)
        truth.update(rows)
        position = receipt.position
        await asyncio.sleep(0.02)
    return position


async def _follow(every: Subscription, rows: dict[str, float]) -> None:
    """What a program gets that only ever looks at changes."""
    async for change in every:
        rows.update({row["symbol"]: row["price"] for row in change.upserts})
        for key in change.deletes:
            del rows[key["symbol"]]


async def test_another_server_takes_over(tmp_path: Path) -> None:
    log = tmp_path / "a" / "log"
    with (
        ServerProcess(tmp_path / "a", "--lease", "0.6", "--node-name", "a") as first,
        ServerProcess(tmp_path / "b", "--lease", "0.6", "--node-name", "b", "--follow", str(log)) as second,
    ):
        async with slackwater.connect([first.url, second.url]) as client:
            await client.execute(TABLE)
            receipt = await client.ingest("quotes", [{"symbol": "A", "price": 1.0}, {"symbol": "B", "price": 2.0}])
            total = await client.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WITHIN 0").ready(20)
            every = await client.subscribe("SUBSCRIBE SELECT * FROM quotes").ready(20)
            watch = Watch(total, every)
            watching = asyncio.create_task(watch.run())
            await total.reached(receipt.position, 10)
            session = client._sessions[None]
            assert session._state.node == "a"
            first.kill()
            async with asyncio.timeout(20):
                while session._state.node != "b" or not (total.certain and every.certain):
                    await asyncio.sleep(0.01)
            assert total.value == 3.0
            assert len(every.rows) == 2
            assert (await client.query("SELECT COUNT(*) AS n FROM quotes")).value == 2
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            assert watch.wrong == []
