"""Servers in processes of their own, with short leases, and clients of them."""

from collections.abc import AsyncIterator, Iterator

import pytest

import slackwater
from slackwater.client import Client
from tests.support.server_process import ServerProcess

QUOTES = "CREATE TABLE quotes (symbol TEXT PRIMARY KEY, price DOUBLE, at TIMESTAMP)"


@pytest.fixture(scope="session")
def client_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server without tokens, shared by tests that leave it alive; each makes tables of its own."""
    with ServerProcess(tmp_path_factory.mktemp("client") / "node", "--lease", "1") as running:
        yield running
    assert "Traceback" not in running.report()


@pytest.fixture
async def client(client_server: ServerProcess) -> AsyncIterator[Client]:
    async with slackwater.connect(client_server.url) as connected:
        yield connected


@pytest.fixture
async def table(client: Client, request: pytest.FixtureRequest) -> str:
    """An empty table of quotes, named after the test."""
    name = f"t{abs(hash(request.node.name)):x}"
    await client.execute(QUOTES.replace("quotes", name))
    return name
