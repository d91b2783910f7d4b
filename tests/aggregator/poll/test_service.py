"""Sources that only answer requests: polled at a fixed period, doubted when they are silent."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import slackwater.client as library
from slackwater.aggregator.poll.poll_state import PolledState
from slackwater.core.errors import SlackwaterError
from tests.support.aggregators import aggregator

CONFIGURATION = """
lease = 1.0
[[sources]]
name = "bank"
url = "{url}"
define = "CREATE TABLE rates (pair TEXT PRIMARY KEY, rate DOUBLE)"
every = 0.2
rows_at = ["rates"]
"""


class Bank:
    """Answers with the rates of the moment, or not."""

    def __init__(self) -> None:
        self.rates = {"EURUSD": 1.0, "EURGBP": 2.0}
        self.well = True
        self.asked = 0


@contextmanager
def served(bank: Bank) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            bank.asked += 1
            rows = [{"pair": pair, "rate": rate} for pair, rate in bank.rates.items()]
            body = json.dumps({"rates": rows}).encode()
            self.send_response(200 if bank.well else 500)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/rates"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_polled_table_is_served_with_fidelity_and_suspended_when_its_source_is_silent(tmp_path: Path) -> None:
    bank = Bank()
    with served(bank) as url, aggregator(tmp_path / "edge", CONFIGURATION.format(url=url)) as edge:
        async with library.connect(edge.url) as client:
            strict = client.subscribe("SUBSCRIBE SELECT SUM(rate) FROM rates WITHIN 1")
            with pytest.raises(SlackwaterError, match=r"between two polls nothing is known.* FIDELITY 95%"):
                await strict.ready(20)
            total = client.subscribe("SUBSCRIBE SELECT SUM(rate) FROM rates WITHIN 1 FIDELITY 98%")
            rows = client.subscribe("SUBSCRIBE SELECT pair, rate FROM rates")
            await total.wait_until(lambda shown: shown.certain and shown.value == 3.0, 20)
            assert (total.shown.bound, total.shown.fidelity) == (1.0, 0.98)
            bank.rates["EURUSD"] = 1.5
            await rows.wait_until(lambda shown: ("EURUSD", 1.5) in (shown.rows or {}).values(), 20)
            assert total.value == 3.0, "it is within 1 still"
            bank.rates["EURUSD"] = 5.0
            await total.wait_until(lambda shown: shown.value == 7.0, 20)
            answer = await client.query("SELECT COUNT(*) FROM rates")
            assert answer.value == 2
            bank.well = False
            await total.wait_until(lambda shown: not shown.certain, 20)
            assert (
                total.why == "source bank has not answered for 3 periods: the server answered 500 Internal Server Error"
            )
            bank.rates["EURGBP"] = 9.0
            bank.well = True
            await total.wait_until(lambda shown: shown.certain and shown.value == 14.0, 20)
            with pytest.raises(SlackwaterError, match="come from elsewhere"):
                await client.ingest("rates", [{"pair": "EURUSD", "rate": 1.0}])
    assert "Traceback" not in edge.report()
    assert "source bank can be relied on again" in edge.report()


def test_a_source_is_doubted_until_it_has_answered() -> None:
    bank = PolledState("bank", every=10)
    assert bank.doubt(0) == "source bank has not answered yet: it has not been polled yet"
    bank.failed("nobody there")
    assert bank.doubt(5) == "source bank has not answered yet: nobody there"
    bank.succeeded(6)
    assert bank.doubt(36) is None
    assert bank.doubt(37) == "source bank has not answered for 3 periods: it is slow"
