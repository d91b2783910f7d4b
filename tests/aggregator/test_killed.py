"""kill -9 under load: what clients of aggregators are shown as certain is within its bound, and right in the end."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

import slackwater.client as library
from slackwater.core.errors import SlackwaterError
from slackwater.server.store import STORE_FILE, Scope, Store
from slackwater.wallclock import WallClock
from tests.support.aggregators import (
    FAR,
    LEASE,
    NEAR,
    SYMBOLS,
    Deployed,
    Prices,
    Written,
    aggregator,
    configuration,
    define,
    eventually,
)
from tests.support.server_process import AggregatorProcess, ServerProcess

CHOSEN = ("S1", "S2", "S5")
ROWS = 3
"""Of one request."""
LISTED = ", ".join(f"'{symbol}'" for symbol in CHOSEN)
QUESTIONS: dict[str, Callable[[dict[str, float]], float]] = {
    "SUM(price)": lambda prices: sum(prices[symbol] for symbol in CHOSEN),
    "AVG(price)": lambda prices: sum(prices[symbol] for symbol in CHOSEN) / len(CHOSEN),
    "MAX(price)": lambda prices: max(prices[symbol] for symbol in CHOSEN),
}
BOUNDS = {"near": {"SUM(price)": 2.0, "AVG(price)": 0.75, "MAX(price)": 0.5}}
"""Just above, or at, what can be promised: 1.5, 0.5, 0.5 near and 6, 2, 2 far."""
BOUNDS["far"] = {"SUM(price)": 8.0, "AVG(price)": 2.5, "MAX(price)": 2.0}


@dataclass
class Watched:
    """One client of an aggregator, and everything that it was shown as certain."""

    where: str
    question: str
    subscription: library.Subscription
    seen: list[tuple[float, int]] = field(default_factory=list)

    @property
    def within(self) -> float:
        return BOUNDS[self.where][self.question]

    def look(self) -> None:
        shown = self.subscription.shown
        if shown.certain:
            assert shown.value is not None
            assert shown.as_of is not None
            assert shown.bound == self.within
            if not self.seen or self.seen[-1] != (shown.value, shown.as_of):
                self.seen.append((shown.value, shown.as_of))


async def load(url: str, stop: asyncio.Event, prices: dict[str, float]) -> int:
    """Rows, each until it is acknowledged."""
    chance = random.Random(4)
    source = f"load {random.random()}"
    sent = 0
    async with library.connect(url, patience=60) as client:
        while not stop.is_set():
            rows = []
            for _ in range(ROWS):
                symbol = chance.choice((*SYMBOLS, *CHOSEN, *CHOSEN))
                # Mostly less than what is held back, so that errors add up; now and then a jump.
                prices[symbol] += chance.gauss(0, 0.4) + (25 if chance.random() < 0.01 else 0)
                rows.append({"symbol": symbol, "price": prices[symbol]})
            await client.ingest("quotes", rows, source=source, first=sent)
            sent += ROWS
            await asyncio.sleep(0.003)
    return sent


async def kill_and_watch(deployed: Deployed, victims: list[ServerProcess]) -> None:
    prices = {symbol: 100.0 + place for place, symbol in enumerate(SYMBOLS)}
    async with (
        library.connect(deployed.server.url) as direct,
        library.connect(deployed.near.url) as near,
        library.connect(deployed.far.url) as far,
    ):
        await direct.ingest("quotes", [{"symbol": symbol, "price": price} for symbol, price in prices.items()])
        watched = [
            Watched(
                where,
                question,
                client.subscribe(
                    f"SUBSCRIBE SELECT {question} FROM quotes WHERE symbol IN ({LISTED}) "
                    f"WITHIN {BOUNDS[where][question]}"
                ),
            )
            for where, client in (("near", near), ("far", far))
            for question in QUESTIONS
        ]

        # Each frame brings all subscriptions of a connection to a new position, so these make the others be looked at
        # in between, when what they show is held back.
        restless = [
            client.subscribe(f"SUBSCRIBE SELECT SUM(price) FROM quotes WHERE symbol = '{symbol}' WITHIN {within}")
            for client, within in ((near, NEAR), (far, FAR))
            for symbol in SYMBOLS
        ]

        def certain() -> bool:
            return all(one.subscription.certain for one in watched)

        def told() -> str:
            return f"{[one.subscription.why for one in watched]} {deployed.reports()[-3000:]}"

        await eventually(lambda: certain() and all(one.subscription.value is not None for one in watched), told)
        stop = asyncio.Event()
        sending = asyncio.create_task(load(deployed.server.url, stop, prices))
        looking = asyncio.create_task(look_on(watched, stop))
        for victim in victims:
            await asyncio.sleep(random.uniform(0.8, 1.2))
            assert not sending.done()
            await asyncio.to_thread(victim.kill)
            # Whoever depends on it may rely on what it last said for a lease, and an aggregator in between for another.
            dependent = [one for one in watched if victim is not deployed.far or one.where == "far"]
            await asyncio.sleep(LEASE)
            await eventually(lambda some=dependent: not any(one.subscription.certain for one in some), told, 2 * LEASE)  # type: ignore[misc]
            await asyncio.sleep(0.3)
            assert not any(one.subscription.certain for one in dependent), "it cannot be known"
            if victim is deployed.far:
                assert all(one.subscription.certain for one in watched if one.where == "near")
            await asyncio.to_thread(victim.start)
            await eventually(certain, told)
        await asyncio.sleep(0.5)
        stop.set()
        await sending
        await looking

        def right() -> bool:
            return certain() and all(
                abs((one.subscription.value or 0.0) - QUESTIONS[one.question](prices)) <= one.within for one in watched
            )

        await eventually(right, told)
        assert all(one.certain for one in restless)
    judge(deployed, watched)


async def look_on(watched: list[Watched], stop: asyncio.Event) -> None:
    while not stop.is_set():
        for one in watched:
            one.look()
        await asyncio.sleep(0.002)


def judge(deployed: Deployed, watched: list[Watched]) -> None:
    """Compare what was shown as certain with the truth at the server's position that it stands for."""
    truth = Prices(deployed.server.folder)
    near, far = Written.read(deployed.near.folder), Written.read(deployed.far.folder)
    for one in watched:
        assert len(one.seen) > 3
        for value, as_of in one.seen:
            position: int | None = as_of
            for log in (far, near) if one.where == "far" else (near,):
                position = None if position is None else log.position(position)
            assert position is not None
            right = QUESTIONS[one.question](truth.at(position))
            assert abs(value - right) <= one.within + 1e-9 * abs(right), (one.where, one.question, value, right, as_of)


async def test_an_aggregator_and_its_upstream_are_killed_once(deployed: Deployed) -> None:
    await kill_and_watch(deployed, [deployed.near, deployed.server])
    report = deployed.far.report()
    assert report.count("WARNING lost: upstream near") == 2, "once for each time"
    assert report.count("upstream near can be relied on again") == 2


@pytest.mark.slow
async def test_aggregators_are_killed_ten_times(deployed: Deployed) -> None:
    victims: list[ServerProcess] = [deployed.near, deployed.far] * 5
    await kill_and_watch(deployed, victims)


async def test_what_is_held_is_told_and_what_cannot_be_promised_is_refused(deployed: Deployed) -> None:
    prices = [{"symbol": symbol, "price": 10.0} for symbol in SYMBOLS]
    async with library.connect(deployed.server.url) as direct:
        await direct.ingest("quotes", prices)
    async with library.connect(deployed.near.url) as client:
        one = client.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WHERE symbol IN ('S1', 'S2') WITHIN 1")
        await one.wait_until(lambda shown: shown.certain, 20)
        assert (one.value, one.bound) == (20.0, 1.0)
        tight = client.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WHERE symbol IN ('S1', 'S2') WITHIN 0.9")
        with pytest.raises(SlackwaterError, match="the tightest bound that can be promised here is WITHIN 1"):
            await tight.ready(10)
        with pytest.raises(SlackwaterError, match="held within a bound here"):
            await client.query("SELECT * FROM quotes")
        with pytest.raises(SlackwaterError, match="come from elsewhere"):
            await client.ingest("quotes", prices)
        await client.execute("CREATE TABLE own (k TEXT PRIMARY KEY, v DOUBLE)")
        receipt = await client.ingest("own", [{"k": "a", "v": 1.0}])
        answer = await client.query("SELECT SUM(v) FROM own", after=receipt.position)
        assert answer.value == 1.0, "a table of its own is one as at any node"
        # What is gone upstream is gone here.
        async with library.connect(deployed.server.url) as direct:
            await direct.ingest("quotes", [{"symbol": "S1"}], delete=True)
        await one.wait_until(lambda shown: shown.certain and shown.value == 10.0, 20)
    (upstream,) = httpx.get(f"{deployed.near.url}/v1/upstreams").json()["upstreams"]
    assert (upstream["name"], upstream["state"], upstream["items"]) == ("server", "certain", len(SYMBOLS))
    assert httpx.get(f"{deployed.server.url}/v1/upstreams").json() == {"upstreams": []}
    assert isinstance(deployed.near, AggregatorProcess)


async def test_an_upstream_that_will_not_have_it_is_doubted(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "server", "--lease", str(LEASE))
    with Store(server.folder / STORE_FILE) as store:
        _, admin = store.create_token("admin", [Scope.ADMIN], WallClock().now())
        _, token = store.create_token("near", [Scope.READ], WallClock().now())
    text = configuration("server", "server", NEAR).replace("nodes =", 'token_file = "token"\nnodes =')
    near = aggregator(tmp_path / "near", text)
    (near.folder / "token").write_text(token)
    with server:
        define(server.url, admin)
        with near:

            def upstream() -> dict[str, Any]:
                (found,) = httpx.get(f"{near.url}/v1/upstreams").json()["upstreams"]
                return dict(found)

            await eventually(lambda: upstream()["state"] == "certain", near.report)
            with Store(server.folder / STORE_FILE) as store:
                store.revoke_token("near", WallClock().now())
            await eventually(lambda: upstream()["state"] == "doubtful", near.report)
            assert "token" in upstream()["why"]
            await asyncio.sleep(2 * LEASE)
            assert upstream()["state"] == "doubtful"
    assert "Traceback" not in near.report()
