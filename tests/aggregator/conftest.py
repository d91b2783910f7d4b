"""Fixtures: see `deployed`."""

from collections.abc import Iterator

import pytest

from tests.support.aggregators import Deployed, deploy


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """A server, an aggregator of it and one stacked on that, all in processes of their own, for one file of tests."""
    with deploy(tmp_path_factory.mktemp("deployed")) as made:
        yield made
    assert "Traceback" not in made.reports()
