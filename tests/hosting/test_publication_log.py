"""What a host says stands in a folder: whole, in order, of one host at a time, and no longer than it is needed."""

from pathlib import Path

import numpy as np
import pytest

from slackwater.core.errors import PositionGone, StoreError
from slackwater.core.types import Position
from slackwater.hosting.publication import Publication, PublishedStep, decode, encode, merged_steps
from slackwater.hosting.publication_log import Cut, PublicationReader, PublicationWriter, batch_starts, read_publication
from slackwater.hosting.step import Step
from slackwater.processing.base import Notifications, Values


def said(start: int, end: int, generation: int = 1) -> Publication:
    return Publication(generation, Position(start), Position(end), (PublishedStep(Step(Notifications(Position(end)))),))


def test_a_reader_follows_in_order(tmp_path: Path) -> None:
    reader = PublicationReader(tmp_path)
    assert reader.next() is None
    with PublicationWriter(tmp_path) as writer:
        writer.publish(said(0, 5))
        writer.publish(said(5, 9))
        with pytest.raises(StoreError, match="where 9 was next"):
            writer.publish(said(12, 13))
    reader.catch_up()
    assert reader.replica.position == 9
    assert reader.next() is None


def test_each_host_has_a_higher_generation_and_an_old_one_is_not_followed(tmp_path: Path) -> None:
    with PublicationWriter(tmp_path) as first:
        assert first.generation == 1
        with pytest.raises(StoreError, match="another host"):
            PublicationWriter(tmp_path)
        first.publish(said(0, 5))
    with PublicationWriter(tmp_path) as second:
        assert second.generation == 2
        second.publish(said(5, 6, generation=2))
        with pytest.raises(StoreError, match="has taken over"):
            second.publish(said(6, 7, generation=1))
    assert batch_starts(tmp_path) == [0, 5]


def test_what_was_begun_is_known_to_the_next_host_until_it_is_said(tmp_path: Path) -> None:
    with PublicationWriter(tmp_path) as first:
        assert first.begun() is None
        first.begin(Cut(0, 7, 3))
    with PublicationWriter(tmp_path) as second:
        assert second.begun() == Cut(0, 7, 3)
        second.publish(said(0, 7, generation=2))
        assert second.begun() is None


def test_damage_is_told(tmp_path: Path) -> None:
    with PublicationWriter(tmp_path) as writer:
        writer.publish(said(0, 5))
    [path] = (tmp_path / "said").iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match="damaged"):
        PublicationReader(tmp_path).next()


def test_what_lies_before_the_answers_is_removed_and_a_late_reader_is_told(tmp_path: Path) -> None:
    late = PublicationReader(tmp_path)
    with PublicationWriter(tmp_path) as writer:
        for start in range(0, 40, 10):
            writer.publish(said(start, start + 10))
            writer.write_snapshot()
            writer.forget_before(start + 10)
        assert batch_starts(tmp_path) == [30]
        assert read_publication(tmp_path, 30) is not None
    with pytest.raises(PositionGone, match="begin again from the answers"):
        late.next()
    assert PublicationReader(tmp_path).replica.position == 40
    for path in (tmp_path / "answers").iterdir():
        if "40" in path.name:
            path.write_bytes(b"damaged")
    reader = PublicationReader(tmp_path)
    assert reader.replica.position == 30, "the answers before it, and what was said since"
    reader.catch_up()
    assert reader.replica.position == 40


def test_shards_that_cut_differently_are_not_joined() -> None:
    with pytest.raises(StoreError, match="different ways"):
        merged_steps([said(0, 5).steps, said(0, 6).steps])


def test_values_come_back_as_they_were() -> None:
    values = Values(np.array([3, 7]), np.array([0.1, 0.0]), np.array([True, False]))
    one = PublishedStep(Step(Notifications(Position(1), values)))
    [back] = decode(encode(Publication(4, Position(0), Position(1), (one,)))).steps
    found = back.step.notifications.values
    assert found is not None
    assert (found.queries.tolist(), found.values.tolist(), found.there.tolist()) == ([3, 7], [0.1, 0.0], [True, False])
    with pytest.raises(StoreError, match="cannot be read"):
        decode(b"\xc1")
