"""Cache service: queries of a caching client, from SQL text to an answer from the cache, in part or from the server.

    SELECT ─▶ which rows of which table ─▶ all of them pushed, and the lease lasts ─▶ answered at home
                                        ─▶ rows are wanted one by one              ─▶ the rest is asked for, live
                                        ─▶ otherwise                               ─▶ the server answers all of it

The first question about a table begins its cache; what is pushed is for the server to find out.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pyarrow as pa

from slackwater.client.answers import Answer
from slackwater.client.cache.copy import Copy, in_columns, layout
from slackwater.client.cache.evaluate import Found, evaluated
from slackwater.client.cache.explain import explained
from slackwater.client.cache.settings import Cache
from slackwater.client.cache.state import CacheState
from slackwater.client.live.connection import LiveSession
from slackwater.client.live.events import Answered, Questioned, Unanswerable, Withdrawn
from slackwater.client.live.subscription import Subscription
from slackwater.core.errors import SqlError
from slackwater.core.labels import is_requestable
from slackwater.core.region import Region
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType
from slackwater.dissemination.transports.base import Unreachable
from slackwater.kinds.cache.query import CacheText
from slackwater.planning.push_pull.region_map import RegionMap
from slackwater.sql import Catalog, parse
from slackwater.sql.explain_tree import ExplainTree
from slackwater.sql.nodes import ExplainOf
from slackwater.sql.parse import write
from slackwater.sql.required_rows import Needed, needed

_MOST_REMEMBERED = 4_096
_MOST_ANSWERS, _FEW_ROWS = 256, 1_000
"""Answers that are remembered until a row changes, and rows of the longest of them."""
_AGAIN = 10_000_000
"""Microseconds until a cache that was refused, or has ended, is asked for again."""
_MOST_TEXT = 16_384
"""How long a question may be to be asked live, in one message; longer ones are for the server's evaluator."""
_TURN = 16
"""Answers at home after which others have their turn."""


class TableDescription(msgspec.Struct, frozen=True):
    """A table as a server shows it."""

    name: str
    columns: list[dict[str, Any]]
    key: list[str]
    event_time: str | None = None

    def schema(self) -> TableSchema:
        """The table."""
        columns = (Column(one["name"], DataType(one["type"]), one.get("nullable", True)) for one in self.columns)
        return TableSchema(self.name, tuple(columns), tuple(self.key), self.event_time)


class TablesBody(msgspec.Struct, frozen=True):
    """All tables."""

    tables: list[TableDescription]


class CacheService:
    """The cache of one client, over its session with the lane of the node."""

    def __init__(
        self,
        cache: Cache,
        session: LiveSession,
        tables: Callable[[], Awaitable[TablesBody]],
        patience: float,
        clock: Callable[[], int],
    ) -> None:
        self.cache = cache
        self._session = session
        self._tables = tables
        self._patience = patience
        self._clock = clock
        self._catalog: Catalog | None = None
        self._needed: dict[str, Needed | None] = {}
        self._remembered: dict[str, tuple[tuple[tuple[int, int], ...], Found]] = {}
        """Answers found in the cache by text, with the versions of the caches they were read from."""
        self._kept: dict[str, tuple[Subscription, int]] = {}
        """The caches that were asked for, and when."""
        self._copies: dict[int, Copy] = {}
        self._waiting: dict[int, asyncio.Future[tuple[int, pa.Table] | None]] = {}
        self._asked: dict[int, Questioned] = {}
        self._refs = itertools.count(1)

    @property
    def state(self) -> CacheState:
        """The state machine underneath, read-only."""
        state = self._session.state
        assert isinstance(state, CacheState)
        return state

    @property
    def counts(self) -> Counter[str]:
        """Messages, rows and bytes by kind since the client began."""
        return self.state.counts

    async def completed(self, sql: str, found: Answer) -> Answer:
        """An answer of the server; to EXPLAIN the cache adds its own lines."""
        if sql.lstrip()[:7].upper() != "EXPLAIN" or not isinstance(parse(sql).tree, ExplainOf):
            self.state.saw(found.as_of)
            return found
        own = await self.explained(sql)
        name = found.columns.names[0]
        more = () if own is None else tuple({name: line} for line in own.text().splitlines())
        return Answer(found.columns, (*found.rows, *more), found.as_of)

    def saw(self, position: int, incarnation: int) -> None:
        """The program was shown something as of this position in another way."""
        self.state.saw(position, incarnation)

    # Questions.

    async def query(self, sql: str, after: int) -> Answer | None:
        """Answer a SELECT; None where the server has to."""
        asked = await self._understood(sql)
        if asked is None or not asked.query.tables:
            return None
        tables = asked.query.tables
        for table in tables:
            self._begin(table)
        now, state = self._clock(), self.state
        positions = {state.at_home(table, asked.region, after, now) for table in tables}
        position = positions.pop() if len(positions) == 1 else None
        if position is not None and self._fits(tables):
            found = self._found(sql, asked).answer(position)
            for table in tables:
                state.took(table, asked.region, position)
            if state.counts["answered at home"] % _TURN == 0:
                # A program that asks in a loop never waits; the connection has to have its turn all the same.
                await asyncio.sleep(0)
            return found
        if not self._fits(tables):
            self._forget_tables()
        live = len(tables) == 1 and asked.rowwise and self._session.over is None
        if live and len(asked.query.text) <= _MOST_TEXT and is_requestable(asked.region):
            pulled = await self._ask(tables[0], asked.region, after)
            # What was understood of a table that is another one by now does not fit its rows.
            if pulled is not None and self._needed.get(sql) is asked:
                return Found.of(evaluated(asked, {tables[0]: pulled[1]})).answer(pulled[0])
            return None
        for table in tables:
            state.count(table, asked.region)
        state.counts["left to the server"] += 1
        return None

    def _found(self, sql: str, asked: Needed) -> Found:
        """Answer a query from the cache; the result is reused until a row of the cache changes."""
        tables = asked.query.tables
        caches = [self.state.cached(table) for table in tables]
        as_they_are = tuple((own.ref, own.version) for own in caches if own is not None)
        known = self._remembered.get(sql)
        if known is not None and known[0] == as_they_are:
            return known[1]
        found = Found.of(evaluated(asked, {table: self._copy(table).select(asked.region) for table in tables}))
        # What the evaluator finds may depend on more than rows: on the time, or on chance.
        if len(found.rows) <= _FEW_ROWS and (asked.query.selection is not None or asked.aggregate is not None):
            if len(self._remembered) >= _MOST_ANSWERS:
                self._remembered.clear()
            self._remembered[sql] = (as_they_are, found)
        return found

    async def _ask(self, table: str, region: Region, after: int) -> tuple[int, pa.Table] | None:
        """The rows of a region, as of a position; None where the node does not answer so."""
        ref = next(self._refs)
        future: asyncio.Future[tuple[int, pa.Table] | None] = asyncio.get_running_loop().create_future()
        self._waiting[ref], self._asked[ref] = future, Questioned(ref, table, region, after)
        try:
            self._session.dispatch(self._asked[ref])
            async with asyncio.timeout(self._patience):
                return await future
        except TimeoutError:
            raise Unreachable(
                f"no server has answered for {self._patience:g} s, and what is at hand cannot be relied on "
                f"({self.state.why}): ask again later"
            ) from None
        finally:
            self._waiting.pop(ref, None)
            self._asked.pop(ref, None)
            if not future.done() or future.cancelled():
                self._session.dispatch(Withdrawn(ref))

    def replied(self, instruction: Answered | Unanswerable) -> None:
        """A question was answered; the cache is of the same position at this moment, and not later."""
        future, question = self._waiting.get(instruction.ref), self._asked.get(instruction.ref)
        if future is None or question is None or future.done():
            return
        if isinstance(instruction, Unanswerable):
            future.set_result(None)
            return
        try:
            future.set_result((instruction.as_of, self._together(question.table, instruction)))
        except (ValueError, pa.ArrowException):
            # Rows with other columns than are known here: the table has changed, and the server answers meanwhile.
            self._forget_tables()
            future.set_result(None)

    def _together(self, table: str, answered: Answered) -> pa.Table:
        schema = self._schema(table)
        columns = layout([one.name for one in schema.columns], [one.type.value for one in schema.columns])
        if answered.shape != schema.shape:
            raise ValueError("rows of another shape came")
        pulled = in_columns(columns, answered.rows)
        if answered.home.empty:
            return pulled
        return pa.concat_tables([self._copy(table).select(answered.home), pulled])

    # What is known of tables and texts.

    async def _understood(self, sql: str) -> Needed | None:
        if sql in self._needed:
            return self._needed[sql]
        try:
            found = needed(parse(sql), await self._known())
        except SqlError:
            # Perhaps a table or a column is new; otherwise the server reports the error.
            self._forget_tables()
            try:
                found = needed(parse(sql), await self._known())
            except SqlError:
                return None
        if len(self._needed) >= _MOST_REMEMBERED:
            self._needed.clear()
            self._remembered.clear()
        self._needed[sql] = found
        return found

    async def _known(self) -> Catalog:
        if self._catalog is None:
            self._catalog = Catalog(tuple(body.schema() for body in (await self._tables()).tables))
        return self._catalog

    def _forget_tables(self) -> None:
        self._catalog = None
        self._needed.clear()
        self._remembered.clear()

    def _schema(self, table: str) -> TableSchema:
        schema = None if self._catalog is None else self._catalog.table(table)
        if schema is None:
            raise ValueError(f"the table {table} is not known any more")
        return schema

    def _fits(self, tables: tuple[str, ...]) -> bool:
        """Whether the tables are what the caches hold: otherwise one has got more columns, or is another one now."""
        for table in tables:
            own = self.state.cached(table)
            schema = None if self._catalog is None else self._catalog.table(table)
            if own is not None and own.description is not None and schema is not None:
                columns = tuple((one.name, one.type.value) for one in schema.columns)
                if tuple(zip(own.description.columns, own.description.types, strict=True)) != columns:
                    return False
        return True

    def _begin(self, table: str) -> None:
        """Request the cache of a table, if it was not requested yet or has ended."""
        kept, begun = self._kept.get(table, (None, 0))
        ended = kept is None or kept._last is not None
        if ended and self._session.over is None and (kept is None or self._clock() > begun + _AGAIN):
            wanted = self._session.subscribe(str(CacheText(self.cache.name, table, self.cache.rows)))
            self._kept[table] = (wanted, self._clock())

    def _copy(self, table: str) -> Copy:
        own = self.state.cached(table)
        assert own is not None
        copy = self._copies.get(own.ref)
        if copy is None:
            # Those of caches that have ended are let go.
            self._copies = {ref: one for ref, one in self._copies.items() if ref in self.state.held}
            copy = self._copies[own.ref] = Copy(own)
        return copy

    # Explanations.

    async def explained(self, sql: str) -> ExplainTree | None:
        """Explain which regions of a query come from the cache and which would be requested."""
        tree = parse(sql).tree
        asked = await self._understood(write(tree.this) if isinstance(tree, ExplainOf) else sql)
        return None if asked is None else explained(self.cache.name, asked, self.state, self._clock())

    def map(self, table: str) -> RegionMap:
        """The regions of a table that are pushed here."""
        own = self.state.cached(table)
        pushed = Region(()) if own is None else own.region
        given_up = Region(()) if own is None else own.given_up
        attributes = tuple(dict.fromkeys(column for box in (*pushed, *given_up) for column in box.columns))
        asked = tuple((region, times) for (name, region), times in self.state.answered.items() if name == table)
        return RegionMap(
            self.cache.name,
            table,
            0 if own is None or own.epoch is None else own.epoch,
            0 if own is None or own.since is None else own.since,
            attributes,
            pushed,
            given_up,
            0 if own is None or own.rows is None else len(own.rows),
            asked,
        )
