"""One Spark session for the whole test run, made when the first test asks for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
