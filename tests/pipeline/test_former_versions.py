"""Folders of Spark from before logs listed their incarnations: they open, and go on where they were.

`fixtures/<commit>.tar.gz` is what that commit left: `queries` with a log, a publication log, snapshots of two shards
and a batch that was begun; `tables` with a log, tables and Spark's checkpoint. Both logs have more than was taken in.
"""

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from slackwater.core import Position
from slackwater.core.lineage import FORMER
from slackwater.hosting.publication_log import PublicationReader, batch_starts
from slackwater.log import LocalLog, Updates
from slackwater.log.extent import LogExtent
from slackwater.pipeline.host.spark_host import HostProgress, SparkHost
from slackwater.pipeline.tables.snapshot import snapshot
from slackwater.pipeline.tables.stream import run_pipeline
from tests.support.spark_hardship import exact
from tests.support.spark_workers import Workers

if TYPE_CHECKING:
    from tests.pipeline.conftest import World

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.tar.gz"))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.name.partition(".")[0])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        # Python 3.11.0 to 3.11.3 have no filters, and no argument for them; later ones want to be told.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    return tmp_path / "spark"


@pytest.mark.parametrize("opened_first", [False, True])
def test_a_spark_host_goes_on(opened_first: bool, folder: Path) -> None:
    log, out = folder / "queries" / "log", folder / "queries" / "host"
    seen: list[HostProgress] = []
    before = PublicationReader(out)
    before.catch_up()
    was = before.replica.place
    assert was.incarnation == FORMER
    writing = LocalLog(log) if opened_first else None
    with SparkHost(log, out, Workers(1), shards=2, progress=seen.append) as host:
        assert host.position == was.position
        # The batch that was begun then ends where it was to end.
        begun = host._publications.begun()
        assert begun is not None
        assert host.batch()
        assert seen[0].position == begun.end
        assert seen[0].rows == begun.end - was.position
        while host.batch():
            pass
        if writing is None:
            writing = LocalLog(log)
        with writing:
            rows = next(one.record for one in writing.read(Position(0)) if isinstance(one.record, Updates))
            writing.append([rows])
            assert host.batch()
            exact(host, writing)
            reader = PublicationReader(out, lambda: LogExtent.of(writing))
            reader.catch_up()
            assert reader.replica.place == writing.lineage.place(writing.end)
            assert reader.replica.place.incarnation == writing.lineage.current != FORMER
            # A server that has followed since before goes on, too.
            while (publication := before.next()) is not None:
                before.replica.apply(publication)
            assert before.replica.place == reader.replica.place
    assert batch_starts(out)
    assert not (out / "aside").exists()


def test_a_pipeline_goes_on_from_its_checkpoint(world: "World", spark: SparkSession, folder: Path) -> None:
    log, out = folder / "tables" / "log", folder / "tables" / "kept"
    history = world.history(9, batches=6, rows=20)
    assert snapshot(out).place.incarnation == FORMER
    world.check(snapshot(out), history.upto(snapshot(out).position))
    with LocalLog(log) as writing:
        with run_pipeline(log, out, spark, available_now=True) as run:
            run.wait()
        assert snapshot(out).position == writing.end
        assert snapshot(out).place == writing.lineage.place(writing.end)
    world.check(snapshot(out), history)
    assert (out / "checkpoint" / "offsets" / "2").exists(), "the checkpoint was gone on with"
    assert not (out / "aside").exists()
