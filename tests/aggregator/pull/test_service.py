"""Twenty real HTTP sources, some slow, one dying: what can be held is held, the rest is suspended with the reason."""

import asyncio
import random
from contextlib import ExitStack
from pathlib import Path

import httpx

import slackwater
from slackwater.client import Subscription
from tests.support.aggregators import aggregator
from tests.support.item_servers import ItemServer, item_server

SOURCES, EACH = 20, 2
TICK = 0.2
TABLE = "CREATE TABLE quotes (symbol TEXT PRIMARY KEY, price DOUBLE)"


def configuration(servers: list[ItemServer]) -> str:
    parts = ["lease = 2.0"]
    for nth, server in enumerate(servers):
        parts += [
            "[[pulls]]",
            f'name = "source{nth}"',
            f'define = "{TABLE}"',
            'value = "price"',
            f'url = "{server.url}/item/{{key}}"',
            f'several = "{server.url}/items?keys={{keys}}"',
            f"keys = {sorted(server.values)}",
            f"tick = {TICK}",
            "longest = 50",
            "timeout = 2.0",
            "rate = 200",
        ]
    return "\n".join(parts) + "\n"


def portfolio(nth: int) -> list[str]:
    """Four items that live at four sources."""
    return [f"S{(nth * 7 + step * 10) % (SOURCES * EACH)}" for step in range(4)]


async def move(servers: list[ItemServer], stop: asyncio.Event) -> None:
    """Prices walk at random, a little in every tick."""
    chance = random.Random(3)
    while not stop.is_set():
        for server in servers:
            for key in server.values:
                server.values[key] += chance.gauss(0, 0.2)
        await asyncio.sleep(TICK)


class Watch:
    """How often what a client is shown as certain was within its bound, by the prices of that moment."""

    def __init__(self, subscription: Subscription, items: list[str], within: float) -> None:
        self.subscription = subscription
        self.items = items
        self.within = within
        self.looks = self.right = 0

    def look(self, prices: dict[str, float]) -> None:
        shown = self.subscription.shown
        if shown.certain and shown.value is not None:
            self.looks += 1
            self.right += abs(shown.value - sum(prices[key] for key in self.items)) <= self.within


async def test_twenty_sources_some_slow_and_one_dying(tmp_path: Path) -> None:
    with ExitStack() as stack:
        values = [{f"S{nth * EACH + k}": 100.0 for k in range(EACH)} for nth in range(SOURCES)]
        servers = [stack.enter_context(item_server(some)) for some in values]
        for slow in servers[3:6]:
            slow.delay = 0.3
        node = aggregator(tmp_path / "near", configuration(servers))
        await asyncio.to_thread(node.start)
        stop = asyncio.Event()
        moving = asyncio.create_task(move(servers, stop))
        try:
            async with slackwater.connect(node.url) as client:
                watches = []
                for nth in range(5):
                    items = portfolio(nth)
                    named = ", ".join(f"'{key}'" for key in items)
                    sql = f"SUBSCRIBE SELECT SUM(price) FROM quotes WHERE symbol IN ({named}) WITHIN 4 FIDELITY 90%"
                    watches.append(Watch(client.subscribe(sql), items, 4.0))
                for watch in watches:
                    await watch.subscription.wait_until(lambda shown: shown.certain and shown.value is not None, 30)
                for _ in range(100):
                    prices = {key: price for server in servers for key, price in server.values.items()}
                    for watch in watches:
                        watch.look(prices)
                    await asyncio.sleep(0.05)
                dying = servers[int(portfolio(0)[0][1:]) // EACH]
                dying.status = 500
                lost = [watch for watch in watches if {*watch.items} & {*dying.values}]
                held = [watch for watch in watches if watch not in lost]
                assert lost
                assert held
                for watch in lost:
                    shown = await watch.subscription.wait_until(lambda shown: not shown.certain, 30)
                    assert "could not be had" in shown.why
                    assert "500" in shown.why
                assert all(watch.subscription.certain for watch in held)
                dying.status = 200
                for watch in lost:
                    await watch.subscription.wait_until(lambda shown: shown.certain, 60)
                for watch in watches:
                    assert watch.looks > 50
                    assert watch.right / watch.looks >= 0.9
                stop.set()
                await moving
                standing = await client.subscriptions()
                assert all((one.pulls or 0) > 0 for one in standing)
                # Nothing is asked for that no query needs, and what was asked is what is told.
                asked = [server for server in servers if server.requests]
                assert len(asked) < SOURCES
                async with httpx.AsyncClient() as web:
                    async with asyncio.timeout(20):
                        while True:
                            before = sum(server.requests for server in servers)
                            [told] = (await web.get(f"{node.url}/v1/upstreams")).json()["upstreams"]
                            if told["requests"] == before == sum(server.requests for server in servers):
                                break
                            await asyncio.sleep(0.01)
        finally:
            stop.set()
            await asyncio.gather(moving, return_exceptions=True)
            await asyncio.to_thread(node.stop)
        assert "Traceback" not in node.report()
