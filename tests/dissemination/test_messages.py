"""Messages survive both encodings; whatever else comes is refused with a sentence."""

from collections.abc import Mapping
from contextlib import suppress
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import ProtocolError
from slackwater.dissemination import encoding as coding
from slackwater.dissemination import messages
from slackwater.dissemination.encoding import (
    Encoding,
    decode_from_client,
    decode_from_node,
    decode_published,
    encode,
)
from slackwater.dissemination.messages import (
    Fact,
    Frame,
    FromClient,
    FromNode,
    IngestRows,
    IngestWindow,
    Message,
    Published,
    Snapshot,
    Subscribe,
    Welcome,
)

TEXT = st.text(max_size=20)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(2**63), 2**63 - 1)
ROW = st.lists(st.one_of(st.none(), st.booleans(), WHOLE, NUMBER, TEXT), min_size=1, max_size=4).map(tuple)
PLAIN: Mapping[object, st.SearchStrategy[Any]] = {
    int: WHOLE,
    str: TEXT,
    bool: st.booleans(),
    float: NUMBER,
    bytes: st.binary(max_size=20),
    type(None): st.none(),
    Any: st.one_of(st.none(), st.booleans(), WHOLE, NUMBER, TEXT),
}


def values(annotation: Any, how: Encoding) -> st.SearchStrategy[Any]:
    """Values of a field, by its type; a type that is not known here fails the test of the message that has it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in PLAIN:
        return PLAIN[annotation]
    if annotation is msgspec.Raw:
        return st.lists(st.tuples(ROW, ROW), max_size=3).map(lambda rows: coding.encode_rows(rows, how)[0])
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        fields = get_type_hints(annotation, include_extras=True)
        return st.builds(annotation, **{name: values(kind, how) for name, kind in fields.items()})
    if origin is Annotated:
        [meta] = arguments[1:]
        assert arguments[0] is int
        return st.integers(meta.ge, meta.le)
    if origin in (Union, UnionType):
        return st.one_of(*(values(kind, how) for kind in arguments))
    if origin is tuple and arguments[1:] == (...,):
        return st.lists(values(arguments[0], how), max_size=4).map(tuple)
    if origin is list:
        return st.lists(values(arguments[0], how), max_size=3)
    raise AssertionError(f"say how to make a {annotation}")


def messages_of(union: Any) -> list[type[Message]]:
    return list(get_args(union))


def test_every_message_is_one_of_a_client_of_a_node_of_a_channel_or_a_fact() -> None:
    written = {
        one
        for one in vars(messages).values()
        if isinstance(one, type) and issubclass(one, Message) and one is not Message
    }
    rows = messages_of(IngestRows)
    assert written == {*messages_of(FromClient), *messages_of(FromNode), *messages_of(Fact), *rows, Published}


@pytest.mark.parametrize("how", Encoding)
@pytest.mark.parametrize("kind", messages_of(FromClient))
@settings(max_examples=50)
@given(data=st.data())
def test_what_a_client_says_is_read_as_it_was_said(data: st.DataObject, kind: type[Message], how: Encoding) -> None:
    message = data.draw(values(kind, how))
    assert decode_from_client(encode(message, how), how) == message


@pytest.mark.parametrize("how", Encoding)
@pytest.mark.parametrize("kind", messages_of(FromNode))
@settings(max_examples=50)
@given(data=st.data())
def test_what_a_node_says_is_read_as_it_was_said(data: st.DataObject, kind: type[Message], how: Encoding) -> None:
    message = data.draw(values(kind, how))
    assert decode_from_node(encode(message, how), how) == message


@pytest.mark.parametrize("how", Encoding)
@pytest.mark.parametrize("kind", messages_of(Fact))
@settings(max_examples=50)
@given(data=st.data())
def test_every_fact_is_read_as_it_was_said(data: st.DataObject, kind: type[Message], how: Encoding) -> None:
    facts = tuple(data.draw(st.lists(values(kind, how), min_size=1, max_size=3)))
    frame = Frame("s", 0, 1, 2, 3, facts)
    assert decode_from_node(encode(frame, how), how) == frame


@settings(max_examples=50)
@given(data=st.data())
def test_a_message_of_a_channel_is_read_as_it_was_published(data: st.DataObject) -> None:
    message = data.draw(values(Published, Encoding.MESSAGEPACK))
    assert decode_published(encode(message)) == message


def test_what_asks_for_unicast_is_written_as_before_there_was_anything_else() -> None:
    assert encode(Subscribe(1, "q", 7), Encoding.JSON) == b'["subscribe",1,"q",7]'
    assert encode(Subscribe(1, "q", None, "channel"), Encoding.JSON) == b'["subscribe",1,"q",null,"channel"]'
    assert decode_from_client('["subscribe",1,"q",7]', Encoding.JSON) == Subscribe(1, "q", 7)


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


def test_nodes_and_clients_of_former_versions_know_nothing_of_rows() -> None:
    """The window is the last field of `Welcome`: who does not know it leaves it out, or passes it over."""

    class FormerWelcome(Message, frozen=True, tag="welcome"):
        session: str
        node: str
        generation: int
        lease: int
        clock: int
        version: int
        incarnation: int
        kept: int

    former = FormerWelcome("s", "n", 1, 5, 100, 3, 7, 9)
    welcome = decode_from_node(encode(former))
    assert isinstance(welcome, Welcome)
    assert (welcome.kept, welcome.ingest) == (9, None)
    window = IngestWindow(1, 2, 3, 4)
    present = encode(Welcome("s", "n", 1, 5, 100, 3, 7, 9, window))
    assert msgspec.msgpack.decode(present, type=FormerWelcome) == former
