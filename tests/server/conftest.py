"""Servers in processes of their own, on loopback and on ports that the system chooses."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server without tokens, for the tests of one file."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "node") as running:
        yield running
    assert "Traceback" not in running.report()


@pytest.fixture
def web(server: ServerProcess) -> Iterator[httpx.Client]:
    """Requests to it."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test's own server may live."""
    return tmp_path / "node"
