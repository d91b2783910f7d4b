"""An aggregator whose items another host keeps upstream: it goes to that host's lane by itself."""

import asyncio
from pathlib import Path

import slackwater
from tests.support.aggregators import LEASE, aggregator, configuration, define
from tests.support.engine_twin import Host
from tests.support.server_process import ServerProcess


async def test_items_in_the_lane_of_another_host(tmp_path: Path) -> None:
    rules = ("--keep-on", "node", "--keep-on", "table:quotes=spark")
    server = ServerProcess(tmp_path / "server", "--lease", str(LEASE), "--spark", str(tmp_path / "said"), *rules)
    near = aggregator(tmp_path / "near", configuration("server", "server", 0.5, ("A", "B")))
    try:
        server.start()
        define(server.url)
        host = Host(tmp_path / "server", tmp_path / "said")
        keeping = asyncio.create_task(host.keep_up())
        await asyncio.to_thread(near.start)
        async with slackwater.connect(server.url) as upstream, slackwater.connect(near.url) as client:
            await upstream.ingest("quotes", [{"symbol": "A", "price": 1.0}, {"symbol": "B", "price": 2.0}])
            total = client.subscribe("SUBSCRIBE SELECT SUM(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN 1.5")
            await total.wait_until(lambda shown: shown.certain and shown.value == 3.0, 20)
            await upstream.ingest("quotes", [{"symbol": "A", "price": 9.0}])
            await total.wait_until(lambda shown: shown.certain and shown.value == 11.0, 20)
            assert {one.host for one in await upstream.subscriptions()} == {"spark"}
            # The host upstream stops: nobody downstream can know how right things are.
            keeping.cancel()
            await upstream.ingest("quotes", [{"symbol": "A", "price": 20.0}])
            shown = await total.wait_until(lambda shown: not shown.certain, 20)
            assert shown.value == 11.0
            host.batch()
            await total.wait_until(lambda shown: shown.certain and shown.value == 22.0, 20)
        host.close()
    finally:
        for one in (near, server):
            await asyncio.to_thread(one.stop)
    assert "Traceback" not in server.report() + near.report()
