"""A cache without its sockets: what it says and takes, and what it does with tables that change meanwhile."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from slackwater.client.cache.service import CacheService, TableDescription, TablesBody
from slackwater.client.cache.settings import Cache
from slackwater.client.cache.state import CacheState
from slackwater.client.cache.table import CachedTable
from slackwater.client.live.events import (
    Answered,
    ClockTick,
    Event,
    Instruction,
    MessageReceived,
    Opened,
    Questioned,
    SendMessage,
    Unwanted,
    Wanted,
)
from slackwater.core.extent import Categories, Interval
from slackwater.core.labels import MOST_REQUESTED
from slackwater.core.region import NOTHING, Box, Region, Side
from slackwater.core.region_codec import plain_region
from slackwater.core.types import Scalar
from slackwater.dissemination.encoding import Encoding, encode_rows
from slackwater.dissemination.messages import Frame, GiveUp, Open, Snapshot, Subscribed, Upsert, Welcome

COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "type": "BIGINT", "nullable": False},
    *({"name": name, "type": "TEXT"} for name in "abcdefghi"),
]
COLOUR = {"name": "colour", "type": "TEXT"}
LEASE = 6_000_000


class Line:
    """In the place of a session: what is told is kept, and nobody answers."""

    over = None

    def __init__(self) -> None:
        self.state = CacheState(lambda: 0.5)
        self.told: list[Event] = []

    def subscribe(self, sql: str) -> Any:
        return SimpleNamespace(_last=None, sql=sql)

    def dispatch(self, event: Event) -> None:
        self.told.append(event)

    @property
    def asked(self) -> list[Questioned]:
        return [one for one in self.told if isinstance(one, Questioned)]


class Tables:
    """The one table of a server, as it is now."""

    def __init__(self) -> None:
        self.columns: list[dict[str, Any]] = COLUMNS

    async def __call__(self) -> TablesBody:
        return TablesBody([self.body])

    @property
    def body(self) -> TableDescription:
        return TableDescription("cars", self.columns, ["id"])


def service(line: Line, tables: Tables) -> CacheService:
    return CacheService(Cache(name="here"), line, tables, 5.0, lambda: 0)  # type: ignore[arg-type]  # as much as it needs


async def test_rows_are_not_read_by_what_was_known_of_a_table_when_they_were_asked_for() -> None:
    line, tables = Line(), Tables()
    one = service(line, tables)
    answers = [asyncio.create_task(one.query("SELECT * FROM cars WHERE id < 5", 0))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tables.columns = [*COLUMNS, COLOUR]
    answers.append(asyncio.create_task(one.query("SELECT colour FROM cars WHERE id < 5", 0)))
    while len(line.asked) < 2:
        await asyncio.sleep(0)
    row = (1, *"xxxxxxxxx", "red")
    for question in line.asked:
        one.replied(Answered(question.ref, 9, (row,), NOTHING, tables.body.schema().shape))
    before, after = await asyncio.gather(*answers)
    assert before is None, "the server is asked: the answer has another column now"
    assert after is not None
    assert after.rows == ({"colour": "red"},)


async def test_a_question_that_is_too_long_to_be_said_is_left_to_the_server() -> None:
    """A message that is too long would end the session, and again whenever it is repeated."""
    line, tables = Line(), Tables()
    lists = [f"{name} IN ({', '.join(repr(f'{name}{nth}') for nth in range(70))})" for name in "abcdefghi"]
    texts = [f"{name} = '{name * 500}'" for name in "abcdefghi"]
    for parts in (lists, texts):
        assert await service(line, tables).query(f"SELECT id FROM cars WHERE {' OR '.join(parts)}", 0) is None
    assert line.asked == []
    assert line.state.counts["left to the server"] == 2


async def test_columns_of_caches_that_have_ended_are_let_go() -> None:
    line, tables = Line(), Tables()
    one = service(line, tables)
    for ref in range(1, 5):
        line.state.handle(Wanted(ref, "CACHE here OF cars LIMIT 5"), 0)
        one._copy("cars")
        assert list(one._copies) == [ref]
        line.state.handle(Unwanted(ref), 0)


# The state.


def state(*facts: Any) -> CacheState:
    """A state in a session, with two caches that have been told this."""
    made = CacheState(lambda: 0.5)
    for ref, table in ((1, "cars"), (2, "boats")):
        made.handle(Wanted(ref, f"CACHE here OF {table} LIMIT 3"), 0)
    made.handle(ClockTick(), 0)
    ((opened,),) = [[one.message for one in made.handle(Opened(), 0) if isinstance(one, SendMessage)]]
    assert isinstance(opened, Open)
    made.handle(MessageReceived(Welcome("s", "node", 1, LEASE, opened.clock)), 0)
    made.handle(MessageReceived(Frame("s", 0, 1, 5, 1, facts)), 0)
    assert made.applied == 1
    return made


def between(low: float, high: float) -> Region:
    return Region((Box.of(Side("id", Interval(low, high))),))


def labels(ref: int, epoch: int, region: Any, was: int | None = None) -> Subscribed:
    return Subscribed(ref, 10 + ref, epoch, ("id",), ("BIGINT",), ("id",), 0.0, 1.0, region, 5, was)


def filled(ref: int, *keys: int) -> Snapshot:
    data, digest = encode_rows([((key,), (key,)) for key in keys], Encoding.MESSAGEPACK)
    return Snapshot(10 + ref, 1, data, len(keys), digest)


def cache(made: CacheState, table: str) -> CachedTable:
    own = made.cached(table)
    assert own is not None
    return own


def test_a_frame_with_labels_that_cannot_be_used_changes_nothing() -> None:
    made = state(labels(1, 1, plain_region(between(0, 3))), filled(1, 2), labels(2, 1, []), filled(2))
    assert made.at_home("cars", between(0, 3), 0, 2) == 5
    overlap = [*plain_region(between(1, 3)), *plain_region(between(2, 4))]
    facts = (labels(1, 2, plain_region(between(0, 9)), was=1), labels(2, 2, overlap, was=1), Upsert(11, 2, (7,), (7,)))
    made.handle(MessageReceived(Frame("s", 1, 2, 6, 1, facts)), 2)
    assert "overlap" in made.why
    own = cache(made, "cars")
    assert (own.epoch, own.rows) == (1, {(2,): (2,)})
    assert made.at_home("cars", between(0, 3), 0, 2) == 5, "until the lease ends"
    assert made.at_home("cars", between(0, 9), 0, 2) is None, "the rows that the new labels add have not been applied"


def give_up(made: CacheState, acknowledgement: int) -> list[GiveUp]:
    """What is given up with one of the next acknowledgements."""
    out: list[Instruction] = made.handle(ClockTick(), acknowledgement * LEASE // 3)
    return [one.message for one in out if isinstance(one, SendMessage) and isinstance(one.message, GiveUp)]


def puzzle(boxes: int) -> Region:
    """Boxes whose hulls overlap along all columns: a node does not compare each with each."""
    pairs = [frozenset[Scalar]({-1 - nth, 1 + nth}) for nth in range(boxes)]
    return Region(tuple(Box.of(Side("id", Categories(pair))) for pair in pairs))


@pytest.mark.parametrize(
    ("kept", "said"),
    [(between(1, 2), True), (puzzle(100), True), (puzzle(300), False), (puzzle(MOST_REQUESTED + 1), False)],
    ids=["one", "few", "hard to tell apart", "many"],
)
def test_what_no_node_would_read_is_not_kept(kept: Region, said: bool) -> None:
    made = state(labels(1, 1, plain_region(kept)), filled(1), labels(2, 1, []), filled(2))
    own = cache(made, "cars")
    assert give_up(made, 1) == []
    own.given_up = between(10_000, 10_001)
    (told,) = give_up(made, 2)
    assert told.kept == (plain_region(kept) if said else [])
