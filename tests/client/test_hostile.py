"""A client in the hands of a server that means no good: no crash, a sentence that says what is wrong."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.client import Change, Misunderstood, Refused
from slackwater.client.address import address
from slackwater.client.failures import of_answer
from slackwater.client.live.connection import LiveSession
from slackwater.client.planned.service import Network
from slackwater.client.rest import Rest
from slackwater.core.errors import SlackwaterError, SqlError
from slackwater.dissemination.encoding import Encoding, decode_from_client, encode, encode_rows
from slackwater.dissemination.messages import (
    Ack,
    Frame,
    Goodbye,
    Message,
    Open,
    Snapshot,
    Subscribe,
    Subscribed,
    Value,
    Welcome,
)
from slackwater.dissemination.messages import (
    Refused as RefusedFact,
)
from slackwater.dissemination.transports.base import Carried, Connection, TransportLimits
from slackwater.dissemination.transports.memory import MemoryConnection, MemoryTransport

LIVE = "memory://live"
Says = Callable[[Message], list[Carried]]


class Dial:
    """Dials one place in memory, whatever the address says."""

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport

    async def dial(self, address: str, limits: TransportLimits) -> MemoryConnection:
        return await self._transport.dial(LIVE, limits)


def welcome(message: Open) -> Carried:
    return encode(Welcome("s", "node", 1, 1_000_000, message.clock))


TURNS = 300
"""Turns of the event loop in which all that a node says at once has arrived: nothing here waits for a clock."""


async def told(says: Says) -> tuple[list[Change], SlackwaterError | None, str]:
    """What a program sees of one subscription to a node that answers like this."""
    transport = MemoryTransport()

    async def node(connection: Connection) -> None:
        while True:
            message = decode_from_client(bytes(await connection.receive()))  # type: ignore[arg-type]
            for answer in says(message):
                connection.send(answer)

    async with transport.listen(node, address=LIVE):
        session = LiveSession([address("http://a")], Dial(transport), lambda: 0.5)
        subscription = session.subscribe("SUBSCRIBE SELECT 1")
        seen: list[Change] = []

        async def listen() -> SlackwaterError | None:
            try:
                async for change in subscription:
                    seen.append(change)  # noqa: PERF401  what came before the end counts
            except SlackwaterError as raised:
                return raised
            return None

        listener = asyncio.create_task(listen())
        for _ in range(TURNS):
            await asyncio.sleep(0)
        error = listener.result() if listener.done() else None
        why = subscription.why
        await session.close()
        await listener
    assert len(asyncio.all_tasks()) == 1
    return seen, error, why


def frames(*facts: Any) -> Says:
    def says(message: Message) -> list[Carried]:
        if isinstance(message, Open):
            return [welcome(message)]
        if isinstance(message, Subscribe):
            return [encode(Frame("s", 0, 1, 5, 0, facts))]
        return []

    return says


NUMBER = Subscribed(1, 7, 0, (), (), (), 0.5, 1.0)
ROWS = Subscribed(1, 7, 0, ("k", "t"), ("BIGINT", "TIMESTAMP"), ("k",), 0.0, 1.0)


async def test_an_honest_node_is_believed() -> None:
    seen, error, _ = await told(frames(NUMBER, Value(7, 0, 3.5)))
    assert ([change.value for change in seen], error) == ([3.5], None)


async def test_a_refusal_is_an_error_of_the_tree() -> None:
    _, error, why = await told(frames(RefusedFact(1, "too many subscriptions")))
    assert isinstance(error, Refused)
    assert why == "too many subscriptions"
    _, error, _ = await told(frames(RefusedFact(1, "line 2, column 3: no")))
    assert isinstance(error, SqlError)
    assert (error.line, error.column) == (2, 3)


async def test_a_farewell_for_good_ends_it() -> None:
    _, error, _ = await told(
        lambda message: [welcome(message) if isinstance(message, Open) else encode(Goodbye("go", False))]
    )
    assert str(error) == "go"


async def test_columns_that_do_not_fit() -> None:
    _, error, why = await told(frames(msgspec.structs.replace(ROWS, types=("BIGINT",))))
    assert error is None
    assert "2 columns came with 1 types" in why


async def test_rows_that_do_not_fit() -> None:
    for row in ((1,), (1, "yesterday"), (1, 2**62)):
        data, digest = encode_rows([((1,), row)], Encoding.MESSAGEPACK)
        seen, error, _ = await told(frames(ROWS, Snapshot(7, 0, data, 1, digest)))
        assert seen == []
        assert isinstance(error, SlackwaterError)


async def test_a_wrong_digest_is_not_applied() -> None:
    data, _ = encode_rows([((1,), (1, 2))], Encoding.MESSAGEPACK)
    seen, error, why = await told(frames(ROWS, Snapshot(7, 0, data, 1, "00" * 16)))
    assert (seen, error) == ([], None)
    assert "digest" in why


class LiveNode:
    """A node that keeps its sessions up: it hears every clock and answers every acknowledgement.

    So nobody comes back because it was silent. `tells`: what each connection in turn is told when it subscribes, the
    last one all that follow too.
    """

    LEASE = 300_000

    def __init__(self, *tells: tuple[Any, ...]) -> None:
        self._tells = tells
        self.asked: list[str] = []
        """What was subscribed to, by connection."""
        self.acknowledged: list[int] = []
        """How often each connection has acknowledged something."""

    async def serve(self, connection: Connection) -> None:
        nth, clock, sequence = len(self.asked), 0, 0
        self.asked.append("")
        self.acknowledged.append(0)
        while True:
            message = decode_from_client(bytes(await connection.receive()))  # type: ignore[arg-type]
            if isinstance(message, Open):
                clock = message.clock
                connection.send(encode(Welcome("s", "node", 1, self.LEASE, clock)))
                continue
            facts: tuple[Any, ...] = ()
            if isinstance(message, Subscribe):
                self.asked[nth] = message.sql
                facts = self._tells[min(nth, len(self._tells) - 1)]
            elif isinstance(message, Ack):
                clock = message.clock
                self.acknowledged[nth] += 1
            sequence += 1
            connection.send(encode(Frame("s", sequence - 1, sequence, 5, clock, facts)))


def plan(part: tuple[Any, ...], nodes: str) -> tuple[Any, ...]:
    columns, types = ("part", "aggregator", "nodes", "sql", "within"), ("BIGINT", "TEXT", nodes, "TEXT", "DOUBLE")
    data, digest = encode_rows([((0,), part)], Encoding.MESSAGEPACK)
    return Subscribed(1, 7, 0, columns, types, ("part",), 5.0, 1.0), Snapshot(7, 0, data, 1, digest)


READABLE = plan((0, "near", "http://b", "SUBSCRIBE a part", 1.0), "TEXT")
SUM = "SUBSCRIBE SELECT 1"


@pytest.mark.parametrize(("nodes", "kind"), [("nonsense", "TEXT"), (3, "BIGINT")])
async def test_a_plan_that_cannot_be_is_asked_for_anew(nodes: object, kind: str) -> None:
    """And the session with whoever tells it goes on: it is opened once more, and kept up by its timer."""
    bad = plan((0, "near", nodes, "SUBSCRIBE a part", 1.0), kind)
    node = LiveNode((NUMBER, Value(7, 0, 1.0)), bad, bad, READABLE)
    transport, complaints = MemoryTransport(), []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    async with transport.listen(node.serve, address=LIVE):
        where, dial = [address("http://a")], Dial(transport)
        network = Network(where, (dial, dial), None, lambda *given: None)  # type: ignore[arg-type]
        first = LiveSession(where, dial, lambda: 0.5)
        wanted = first.subscribe(SUM)
        network.adopt(wanted)
        async with asyncio.timeout(5):
            # The first session, that of plans, and that of plans once more.
            while len(node.asked) < 3 or node.acknowledged[2] < 9:
                await asyncio.sleep(0.01)
        assert node.asked == [SUM] * 3, "once for each such plan, and for three leases the session is kept up"
        assert node.acknowledged[1] <= 1, "it was not waited for"
        assert "plan" in wanted.why
        plans = network._plans
        assert plans is not None
        assert plans._timer is not None
        await network.close()
        await first.close()
    assert complaints == []


async def test_the_plan_that_follows_one_that_cannot_be_is_taken_up() -> None:
    bad = plan((0, "near", "nonsense", "SUBSCRIBE a part", 1.0), "TEXT")
    node = LiveNode((NUMBER, Value(7, 0, 1.0)), bad, READABLE, (NUMBER, Value(7, 0, 3.5)))
    transport = MemoryTransport()
    async with transport.listen(node.serve, address=LIVE):
        where, dial = [address("http://a")], Dial(transport)
        network = Network(where, (dial, dial), None, lambda *given: None)  # type: ignore[arg-type]
        first = LiveSession(where, dial, lambda: 0.5)
        wanted = first.subscribe(SUM)
        network.adopt(wanted)
        shown = await wanted.wait_until(lambda shown: shown.certain, 5)
        assert (shown.value, shown.positions) == (3.5, (("near", 5),))
        assert node.asked == [SUM, SUM, SUM, "SUBSCRIBE a part"]
        await network.close()
        await first.close()


@given(st.lists(st.binary(max_size=60) | st.text(max_size=20), min_size=1, max_size=4), st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes(garbage: list[Carried], opened: bool) -> None:
    def says(message: Message) -> list[Carried]:
        return [welcome(message), *garbage] if opened and isinstance(message, Open) else garbage

    seen, error, why = asyncio.run(told(says))
    assert seen == []
    assert error is None
    assert why


scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3)
cells = st.lists(scalars, max_size=3)
tags = st.sampled_from(["value", "upsert", "delete", "snapshot", "suspended", "resumed", "subscribed", "refused"])
likely = st.sampled_from([0, 1, 7]) | scalars | cells
facts = st.tuples(tags, likely, likely, likely, likely, likely, likely, likely, likely).flatmap(
    lambda fact: st.integers(2, 9).map(lambda size: list(fact[:size]))
)
honest = st.sampled_from([NUMBER, ROWS, Value(7, 0, 1.0), RefusedFact(1, "no")]).map(msgspec.to_builtins)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 9), st.lists(honest | facts, max_size=4)),
        max_size=4,
    )
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_frames(sent: list[tuple[int, int, int, list[Any]]]) -> None:
    def says(message: Message) -> list[Carried]:
        if isinstance(message, Open):
            return [welcome(message)]
        if isinstance(message, Subscribe):
            return [
                msgspec.msgpack.encode(["frame", "s", base, sequence, as_of, 0, list(said)])
                for base, sequence, as_of, said in sent
            ]
        return []

    asyncio.run(told(says))


@given(
    st.integers(200, 599),
    st.binary(max_size=50)
    | st.dictionaries(
        st.sampled_from(["error", "message", "line", "column"]), scalars | st.sampled_from(["sql", "gone"])
    ).map(msgspec.json.encode),
)
def test_any_answer_is_an_error_of_the_tree(status: int, body: bytes) -> None:
    assert str(of_answer(status, body, "http://a"))


async def test_an_answer_that_is_no_answer() -> None:
    rest = Rest([address("http://a")], None, 0.1, lambda: 0.5)
    await rest._http.aclose()
    rest._http = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=b"<html>")))
    with pytest.raises(Misunderstood, match="not as a Slackwater server writes it"):
        await rest.ask("/v1/explain", {}, dict[str, int])
    await rest.close()
