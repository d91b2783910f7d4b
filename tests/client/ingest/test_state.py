"""Ingest state of a client: turns, the window, acknowledgements, pauses, new connections."""

import pytest

from slackwater.client.ingest.state import Batch, IngestState
from slackwater.core.backoff import Backoff
from slackwater.core.errors import ProtocolError
from slackwater.dissemination.messages import MESSAGE_OVERHEAD, Ingested, IngestRefused, IngestWindow

WINDOW = IngestWindow(rows=4, bytes=100 + 4 * MESSAGE_OVERHEAD, streams=2, message=50)


def state(*streams: int, window: IngestWindow | None = WINDOW) -> IngestState:
    made = IngestState(lambda: 0.0, Backoff(100, most=1_000, jitter=0))
    for number in streams:
        made.begin(number, 0)
    made.opened(window)
    return made


def push(made: IngestState, number: int, *firsts: int, size: int = 10) -> None:
    for first in firsts:
        made.push(number, Batch(first, 1, f"{number}/{first}".ljust(size).encode()))


def sent(made: IngestState, now: int = 0) -> list[str]:
    return [data.decode().strip() for data in made.sendable(now)]


def acknowledged(made: IngestState, number: int, end: int) -> None:
    made.received(Ingested(number, end, 1, 0, 0, 9), 0)


def busy(number: int, begin: int) -> IngestRefused:
    return IngestRefused(number, begin, 429, "busy", "come again", again=True)


def test_streams_take_turns_within_the_window() -> None:
    made = state(1, 2)
    push(made, 1, 0, 1, 2, 3)
    push(made, 2, 0, 1)
    assert sent(made) == ["1/0", "2/0", "1/1", "2/1"]
    acknowledged(made, 1, 2)
    assert sent(made) == ["1/2", "1/3"]
    assert (made.rows, made.bytes) == (4, 40 + 4 * MESSAGE_OVERHEAD)


def test_only_so_many_streams_are_under_way() -> None:
    made = state(1, 2, 3)
    for number in (1, 2, 3):
        push(made, number, 0)
    assert sent(made) == ["1/0", "2/0"]
    acknowledged(made, 1, 1)
    assert sent(made) == ["3/0"]


def test_what_is_not_acknowledged_is_sent_again_in_a_new_session() -> None:
    made = state(1)
    push(made, 1, 0, 1, 2)
    assert sent(made) == ["1/0", "1/1", "1/2"]
    acknowledged(made, 1, 1)
    made.lost()
    push(made, 1, 3)
    assert sent(made) == []
    made.opened(WINDOW)
    assert sent(made) == ["1/1", "1/2", "1/3"]


def test_after_a_refusal_a_stream_pauses_and_goes_on_from_the_row_that_was_named() -> None:
    made = state(1, 2)
    push(made, 1, 0, 1, 2)
    sent(made)
    made.received(busy(1, 1), 1_000)
    push(made, 1, 3)
    push(made, 2, 0)
    assert sent(made, 1_050) == ["2/0"]
    assert made.due() == 1_100
    acknowledged(made, 1, 1)
    assert sent(made, 1_100) == ["1/1", "1/2", "1/3"]
    made.received(busy(1, 1), 2_000)
    assert made.due() == 2_100  # an acknowledgement came between


def test_pauses_grow() -> None:
    made = state(1)
    push(made, 1, 0)
    for waits in (100, 200, 400):
        assert sent(made, 10_000) == ["1/0"]
        made.received(busy(1, 0), 0)
        assert made.due() == waits


def test_a_refusal_for_good_ends_the_stream_and_keeps_the_count_of_what_is_under_way() -> None:
    made = state(1)
    push(made, 1, 0, 1, 2)
    sent(made)
    made.received(IngestRefused(1, 1, 400, "bad_request", "no", again=False), 0)
    stream = made.streams[1]
    assert stream.refused is not None
    assert (made.rows, len(stream.waiting)) == (1, 0)
    acknowledged(made, 1, 1)
    assert (made.rows, stream.durable) == (0, 1)


def test_a_stream_that_is_over_sends_nothing_again() -> None:
    made = state(1)
    push(made, 1, 0, 1, 2)
    assert sent(made) == ["1/0", "1/1", "1/2"]
    made.received(IngestRefused(1, 2, 400, "bad_request", "another shape", again=False), 0)
    # What was on its way to the log then, the node could not take.
    made.received(busy(1, 0), 0)
    assert sent(made, now=10_000) == []
    assert made.due() is None
    assert (made.rows, made.bytes) == (0, 0)


def test_a_message_that_never_fits_ends_its_stream_alone() -> None:
    made = state(1, 2)
    push(made, 2, 0)
    push(made, 1, 0, size=60)
    assert sent(made) == ["2/0"]
    assert made.streams[1].refused is None  # others are under way
    acknowledged(made, 2, 1)
    assert sent(made) == []
    assert made.streams[1].refused is not None


def test_an_abandoned_stream_counts_until_it_is_acknowledged() -> None:
    made = state(1)
    push(made, 1, 0, 1, 2, 3, 4)
    sent(made)
    made.abandon(1)
    assert made.rows == 4
    acknowledged(made, 1, 4)
    assert (made.rows, made.streams) == (0, {})
    acknowledged(made, 1, 5)  # of a stream that is not known any more


def test_a_node_that_acknowledges_what_was_not_sent_is_not_believed() -> None:
    made = state(1)
    push(made, 1, 0)
    sent(made)
    with pytest.raises(ProtocolError):
        acknowledged(made, 1, 2)


def test_a_node_that_takes_no_rows_is_known_as_such() -> None:
    made = state(1, window=None)
    push(made, 1, 0)
    assert (made.refuses, sent(made), made.news) == (True, [], {1})
