"""Ingest streams of one connection: order, cumulative acknowledgement, refusals, the window."""

import pytest

from slackwater.core.types import Position
from slackwater.dissemination.messages import (
    MESSAGE_OVERHEAD,
    ColumnRows,
    Ingest,
    Ingested,
    IngestRefused,
    IngestWindow,
)
from slackwater.intake import IntakeReceipt
from slackwater.sessions.ingest_streams import MOST_ROWS, IngestStreams, StreamRefusal, Taking

WINDOW = IngestWindow(rows=100, bytes=10_000, streams=2, message=5_000)
BUSY = StreamRefusal(429, "busy", "come again", again=True)


def receipt(rows: int) -> IntakeReceipt:
    return IntakeReceipt(rows, 0, 0, Position(7))


def rows(first: int, count: int = 1, stream: int = 1, source: str = "s", table: str = "t") -> Ingest:
    return Ingest(stream, table, source, first, count, ColumnRows(("k",), (list(range(count)),)))


def streams(check: StreamRefusal | None = None, window: IngestWindow | None = WINDOW) -> IngestStreams:
    return IngestStreams(window, lambda message: check)


def take(state: IngestStreams) -> Taking:
    [taking] = state.due()
    return taking


def refused(state: IngestStreams, message: Ingest, size: int = 10) -> IngestRefused:
    answer = state.received(message, size)
    assert answer is not None
    return answer


def test_what_came_together_is_one_change_and_one_acknowledgement() -> None:
    state = streams()
    for number in (5, 6, 7):
        assert state.received(rows(number), 10) is None
    taking = take(state)
    assert [message.first for message in taking.messages] == [5, 6, 7]
    assert state.durable(taking, receipt(3)) == Ingested(1, 8, 3, 0, 0, 7)


def test_a_second_change_waits_for_the_first() -> None:
    state = streams()
    state.received(rows(0), 10)
    first = take(state)
    state.received(rows(1), 10)
    state.received(rows(2, stream=2, source="other"), 10)
    assert [taking.stream for taking in state.due()] == [2]
    state.durable(first, receipt(1))
    assert take(state).first == 1


def test_after_a_failure_everything_comes_again_from_the_first_row_of_it() -> None:
    state = streams()
    state.received(rows(0, 2), 10)
    taking = take(state)
    state.received(rows(2, 2), 10)
    assert state.failed(taking, BUSY) == IngestRefused(1, 0, 429, "busy", "come again", True)
    # Sent before the refusal was heard: passed over, in silence.
    assert state.received(rows(4, 2), 10) is None
    assert list(state.due()) == []
    for first in (0, 2, 4):
        assert state.received(rows(first, 2), 10) is None
    assert [message.first for message in take(state).messages] == [0, 2, 4]


def test_a_node_without_room_takes_what_it_has() -> None:
    room = [True]
    state = IngestStreams(WINDOW, lambda message: None, lambda size: room[0])
    state.received(rows(0), 10)
    room[0] = False
    answer = refused(state, rows(1))
    assert (answer.next, answer.again, answer.code) == (1, True, "busy")
    taking = take(state)
    room[0] = True
    assert state.received(rows(2), 10) is None  # on the way meanwhile
    assert state.received(rows(1), 10) is None
    state.durable(taking, receipt(1))
    assert take(state).first == 1


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (rows(3), "bad_request"),  # a gap
        (rows(0), "bad_request"),  # a repetition that nobody asked for
        (rows(1, source="another"), "bad_request"),
        (rows(1, table="another"), "bad_request"),
        (Ingest(1, "t", "s", 1, 2, ColumnRows(("k",), ([1],))), "bad_request"),
        (Ingest(1, "t", "s", 1, 1, ColumnRows(("k", "v"), ([1],))), "bad_request"),
        (Ingest(1, "t", "s", 1, 0, ColumnRows(("k",), ([],))), "bad_request"),
        (Ingest(1, "t", "s", 1, 1, ColumnRows((), ())), "bad_request"),
        (rows(1, 101), "window"),
    ],
)
def test_what_no_repetition_can_help_ends_the_stream_and_takes_nothing_back(message: Ingest, code: str) -> None:
    state = streams()
    state.received(rows(0), 10)
    answer = refused(state, message)
    assert (answer.code, answer.again, answer.next) == (code, False, 1)
    assert state.received(rows(1), 10) is None  # over: said once
    assert state.durable(take(state), receipt(1)).next == 1
    assert state.received(rows(0, stream=2, source="other"), 10) is None
    assert take(state).stream == 2


def test_the_window_is_of_rows_and_bytes_that_are_not_durable() -> None:
    state = streams()
    state.received(rows(0, 100), 10)
    taking = take(state)
    assert refused(state, rows(0, stream=2, source="other")).code == "window"
    state.durable(taking, receipt(100))
    assert (state.rows, state.bytes) == (0, 0)
    assert state.received(rows(100), 9_999 - MESSAGE_OVERHEAD) is None
    assert refused(state, rows(0, stream=3, source="third"), 2).code == "window"


def test_only_so_many_streams_at_once_but_any_number_one_after_the_other() -> None:
    state = streams()
    for stream in (1, 2):
        state.received(rows(0, stream=stream), 10)
    assert refused(state, rows(0, stream=3)).code == "limit"
    for taking in list(state.due()):
        state.durable(taking, receipt(1))
    for stream in range(4, 40):
        assert state.received(rows(0, stream=stream), 10) is None
        state.durable(take(state), receipt(1))


def test_a_stream_that_was_refused_does_not_begin_anew_with_what_was_on_its_way() -> None:
    state = streams()
    state.received(rows(0, stream=1), 10)
    taking = take(state)
    for stream in range(2, 40):
        # Others end in between, and some of them are refused as well.
        state.received(rows(0, stream=stream), 10)
        state.durable(take(state), receipt(1))
        if stream == 30:
            assert not state.failed(taking, StreamRefusal(404, "not_found", "there is no such table")).again
        if stream > 30:
            assert state.received(rows(1, stream=1), 10) is None
            assert not list(state.due())
        if stream == 32:
            refused(state, rows(5, stream=stream))
    assert len(state._streams) <= 3 * WINDOW.streams


def test_without_right_table_source_or_window_a_stream_does_not_begin() -> None:
    assert refused(streams(StreamRefusal(404, "not_found", "no table")), rows(0)).code == "not_found"
    assert refused(streams(window=None), rows(0)).code == "forbidden"
    assert refused(streams(), rows(0, source="")).code == "bad_request"
    assert refused(streams(), rows(0, source="s" * 129)).code == "bad_request"


def test_a_change_has_a_bounded_number_of_rows() -> None:
    state = streams(window=IngestWindow(10 * MOST_ROWS, 10_000, 2, 5_000))
    for nth in range(3):
        state.received(rows(nth * MOST_ROWS, MOST_ROWS), 10)
    for nth in range(3):
        taking = take(state)
        assert (taking.first, taking.rows) == (nth * MOST_ROWS, MOST_ROWS)
        state.durable(taking, receipt(MOST_ROWS))
    assert list(state.due()) == []


def test_a_connection_that_is_gone_leaves_nothing_that_counts() -> None:
    state = streams()
    state.received(rows(0), 10)
    taking = take(state)
    state.received(rows(1), 10)
    state.close()
    state.durable(taking, receipt(1))
    assert (state.rows, state.bytes, list(state.due())) == (0, 0, [])
