"""Messages survive both encodings; whatever else comes is refused with a sentence."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core import ProtocolError
from slackwater.dissemination import encoding as coding
from slackwater.dissemination.encoding import Encoding, decode_from_client, decode_from_node, encode
from slackwater.dissemination.messages import (
    Ack,
    Delete,
    Fact,
    Frame,
    FromClient,
    FromNode,
    Goodbye,
    Open,
    Refused,
    Resumed,
    Snapshot,
    Subscribe,
    Subscribed,
    Suspended,
    Unsubscribe,
    Upsert,
    Value,
    Welcome,
)

COUNT = st.integers(0, 2**63 - 1)
TEXT = st.text(max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
ROW = st.lists(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), NUMBER, TEXT), min_size=1, max_size=4
).map(tuple)

FROM_CLIENT: st.SearchStrategy[FromClient] = st.one_of(
    st.builds(Open, COUNT, COUNT, COUNT),
    st.builds(Subscribe, COUNT, TEXT, st.none() | COUNT),
    st.builds(Unsubscribe, COUNT),
    st.builds(Ack, COUNT, COUNT, st.booleans()),
)
NAMES = st.lists(TEXT, max_size=3).map(tuple)
FACT: st.SearchStrategy[Fact] = st.one_of(
    st.builds(Subscribed, COUNT, COUNT, COUNT, NAMES, NAMES, NAMES, NUMBER, NUMBER),
    st.builds(Refused, COUNT, TEXT),
    st.builds(Value, COUNT, COUNT, st.none() | NUMBER),
    st.builds(Upsert, COUNT, COUNT, ROW, ROW),
    st.builds(Delete, COUNT, COUNT, ROW),
    st.builds(Suspended, COUNT, COUNT, TEXT),
    st.builds(Resumed, COUNT, COUNT),
)
FROM_NODE: st.SearchStrategy[FromNode] = st.one_of(
    st.builds(Welcome, TEXT, TEXT, COUNT, COUNT, COUNT, COUNT),
    st.builds(Frame, TEXT, COUNT, COUNT, COUNT, COUNT, st.lists(FACT, max_size=4).map(tuple)),
    st.builds(Goodbye, TEXT, st.booleans()),
)


@given(FROM_CLIENT, st.sampled_from(Encoding))
def test_what_a_client_says_is_read_as_it_was_said(message: FromClient, how: Encoding) -> None:
    assert decode_from_client(encode(message, how), how) == message


@given(FROM_NODE, st.sampled_from(Encoding))
def test_what_a_node_says_is_read_as_it_was_said(message: FromNode, how: Encoding) -> None:
    assert decode_from_node(encode(message, how), how) == message


@given(st.lists(st.tuples(ROW, ROW), max_size=5), st.sampled_from(Encoding))
def test_snapshots_are_checked_by_their_digest(
    rows: list[tuple[tuple[object, ...], tuple[object, ...]]], how: Encoding
) -> None:
    raw, digest = coding.encode_rows(rows, how)  # type: ignore[arg-type]
    frame = Frame("s", 0, 1, 2, 3, (Snapshot(1, 0, raw, len(rows), digest),))
    read = decode_from_node(encode(frame, how), how)
    assert isinstance(read, Frame)
    assert isinstance(read.facts[0], Snapshot)
    assert coding.decode_rows(read.facts[0].rows, digest, how) == rows
    with pytest.raises(ProtocolError, match="digest"):
        coding.decode_rows(read.facts[0].rows, coding.digest(b"other"), how)


@given(st.binary(max_size=60), st.sampled_from(Encoding))
def test_any_bytes_give_a_message_or_a_protocol_error(data: bytes, how: Encoding) -> None:
    for decode in (decode_from_client, decode_from_node):
        with suppress(ProtocolError):
            decode(data, how)


@given(st.recursive(st.none() | st.booleans() | st.integers() | NUMBER | TEXT, lambda one: st.lists(one, max_size=4)))
def test_any_json_gives_a_message_or_a_protocol_error(value: object) -> None:
    text = msgspec.json.encode(value).decode()
    for decode in (decode_from_client, decode_from_node):
        with suppress(ProtocolError):
            decode(text, Encoding.JSON)


def test_deep_nesting_and_lone_surrogates_are_refused() -> None:
    for text in ("[" * 100_000, '["subscribe",1,"\ud800"]'):
        with pytest.raises(ProtocolError):
            decode_from_client(text, Encoding.JSON)


def test_too_long_a_message_is_refused_before_it_is_read() -> None:
    with pytest.raises(ProtocolError, match="may have 1048576 bytes"):
        decode_from_client(b"x" * (coding.MOST_FROM_CLIENT + 1))


@pytest.mark.parametrize(
    "text", ['["ack",-1,0]', '["ack",9223372036854775808,0]', '["ack",1.5,0]', '["ack"]', '["frame"]']
)
def test_numbers_that_cannot_be_carried_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        decode_from_client(text, Encoding.JSON)
