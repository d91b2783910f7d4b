"""Publications over a log that is copied and restored: a replica never shows values of another history as certain."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from slackwater.core import disk
from slackwater.core.errors import StoreError
from slackwater.core.lineage import Lineage, Place
from slackwater.core.types import Position
from slackwater.hosting.publication import Publication, PublishedStep
from slackwater.hosting.publication_log import (
    PARTS,
    Cut,
    PublicationReader,
    PublicationsReplaced,
    PublicationWriter,
    batch_starts,
    read_editions,
)
from slackwater.hosting.step import Step
from slackwater.log.extent import LogExtent
from slackwater.processing.base import Notifications
from tests.support import planted_place_bugs
from tests.support.publication_world import history


def said(writer: PublicationWriter, end: int, incarnation: int) -> None:
    start, until = writer.replica.position, Position(end)
    step = PublishedStep(Step(Notifications(until)))
    writer.publish(Publication(writer.generation, start, until, (step,), incarnation))


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about power cuts."""
    monkeypatch.setattr(disk, "sync", lambda descriptor: None)
    monkeypatch.setattr(disk, "sync_folder", lambda folder: None)


@pytest.mark.usefixtures("quick_disk")
def test_values_are_those_of_the_history_they_name(tmp_path: Path) -> None:
    worlds = [history(seed, tmp_path / str(seed), 120) for seed in range(12)]
    assert sum(world.begun_anew for world in worlds) > 12
    assert sum(world.replaced for world in worlds) > 12
    assert sum(world.abandoned for world in worlds) > 2
    assert sum(world.compared for world in worlds) > 1_000


@pytest.mark.slow
@pytest.mark.usefixtures("quick_disk")
@pytest.mark.parametrize("seed", range(100, 400))
def test_values_are_those_of_the_history_they_name_often(seed: int, tmp_path: Path) -> None:
    history(seed, tmp_path, 300)


def any_edition_accepted(self: PublicationReader, place: Place) -> bool:
    """Planted: values that two hosts published pass for those of one."""
    return True


BUGS: list[tuple[type, str, Callable[..., object]]] = [
    *((LogExtent, "relation", bug) for bug in planted_place_bugs.BUGS),
    (PublicationReader, "_is_ours", any_edition_accepted),
]


@pytest.mark.usefixtures("quick_disk")
@pytest.mark.parametrize(("where", "name", "bug"), BUGS, ids=lambda one: getattr(one, "__name__", None))
def test_a_planted_bug_is_found(
    where: type, name: str, bug: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, bug)
    for seed in range(40):
        try:
            history(seed, tmp_path / str(seed), 120)
        except (AssertionError, StoreError, KeyError):
            return
    pytest.fail("no history shows the bug")


def test_a_publication_that_the_log_does_not_show_yet_is_waited_for(tmp_path: Path) -> None:
    seen = LogExtent(Lineage().begin(7, Position(0)), Position(5))
    reader = PublicationReader(tmp_path, lambda: seen)
    with PublicationWriter(tmp_path) as writer:
        said(writer, 9, 7)
    assert reader.next() is None
    assert reader.doubt is None, "it is no other history"
    seen = LogExtent(seen.lineage, Position(9))
    reader.catch_up()
    assert reader.replica.place == Place(7, Position(9))


def test_a_publication_of_another_history_is_told(tmp_path: Path) -> None:
    seen = LogExtent(Lineage().begin(7, Position(0)).begin(8, Position(5)), Position(20))
    reader = PublicationReader(tmp_path, lambda: seen)
    with PublicationWriter(tmp_path) as writer:
        said(writer, 5, 7)
        said(writer, 9, 7)
        reader.catch_up()
        assert reader.replica.place == Place(7, Position(5)), "so far both histories are one"
        assert reader.doubt is not None
        assert "another history" in reader.doubt
        aside = writer.begin_anew()
        assert (aside / "said").is_dir()
        with pytest.raises(PublicationsReplaced, match="begun anew"):
            reader.next()
        reader = PublicationReader(tmp_path, lambda: seen)
        said(writer, 20, 8)
        reader.catch_up()
    assert reader.replica.place == Place(8, Position(20))
    assert reader.doubt is None


def test_a_snapshot_of_another_history_is_passed_over(tmp_path: Path) -> None:
    seen = LogExtent(Lineage().begin(7, Position(0)).begin(8, Position(5)), Position(20))
    with PublicationWriter(tmp_path) as writer:
        for end in (4, 9, 13):
            said(writer, end, 7)
            writer.write_snapshot()
            writer.forget_before(end)
        assert batch_starts(tmp_path) == [9]
        reader = PublicationReader(tmp_path, lambda: seen)
        reader.catch_up()
        assert reader.replica.position == 0
        assert reader.doubt is not None
        writer.begin_anew()
    assert PublicationReader(tmp_path).replica.position == 0


class _Died(BaseException):
    """The process is killed here."""


@pytest.mark.parametrize("renames", range(len(PARTS) + 3))
def test_beginning_anew_is_completed_by_the_next_host(
    renames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, count = Path.rename, 0

    def dying(self: Path, target: Path) -> Path:
        nonlocal count
        if count == renames:
            raise _Died
        count += 1
        return rename(self, target)

    with PublicationWriter(tmp_path) as writer:
        said(writer, 9, 7)
        writer.write_snapshot()
        writer.begin(Cut(9, 12, 0, 7))
        former = read_editions(tmp_path).current
        (tmp_path / "shards" / "0").mkdir(parents=True)
        (tmp_path / "shardings").write_bytes(b"[]")
        monkeypatch.setattr(Path, "rename", dying)
        with suppress(_Died):
            writer.begin_anew()
        monkeypatch.undo()
    with PublicationWriter(tmp_path) as writer:
        if renames == 0:
            assert writer.replica.position == 9, "nothing was put aside yet"
            return
        assert writer.replica.position == 0
        assert writer.begun() is None
        assert not (tmp_path / "shards").exists()
        editions = read_editions(tmp_path).incarnations
        assert former not in {one.number for one in editions}
        assert all(one.start == 0 for one in editions)
        assert {path.name for path in (tmp_path / "aside").iterdir()} == {*PARTS}
        said(writer, 20, 8)
