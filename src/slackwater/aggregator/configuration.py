"""Aggregator configuration: upstreams and sources from a TOML file, with every mistake reported at its place.

[[upstreams]]
name = "exchange"
nodes = ["http://127.0.0.1:8400"]      # or the name of a node whose folder lies beside this one's
token_file = "token"                   # where the upstream asks for one

[[upstreams.items]]
table = "quotes"
value = "price"
keys = ["IBM", "MSFT"]                 # of several key columns: [["IBM", "NYSE"], …]
within = 0.5

[[sources]]
name = "bank"
url = "https://example.org/rates.json"
define = "CREATE TABLE rates (pair TEXT PRIMARY KEY, rate DOUBLE)"
every = 10

[[pulls]]                              # asked for as often as its queries need, and no more
name = "tape"
define = "CREATE TABLE trades (symbol TEXT PRIMARY KEY, price DOUBLE)"
value = "price"
url = "https://example.org/trades/{key}"
several = "https://example.org/trades?symbols={keys}"
keys = ["IBM", "MSFT"]
tick = 1
# learnt = "statistics"                # a folder that `slackwater learn` has written, to begin with
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from slackwater.aggregator.base import MOST_ITEMS, Item
from slackwater.aggregator.mirrored_items import MirroredItems, PulledTable
from slackwater.aggregator.pull.item_statistics import ItemStatistics, read_learnt
from slackwater.core.errors import SlackwaterError
from slackwater.core.schema import TableSchema
from slackwater.core.settings import read_settings
from slackwater.core.statement import CreateTable
from slackwater.core.types import DataType, Key, Scalar, instant
from slackwater.deployment.configuration import Above, ServerPart
from slackwater.sources.bodies import BodyFormat
from slackwater.sources.item_requests import Endpoint
from slackwater.sql import Catalog, bind, parse

Word = Annotated[str, Meta(min_length=1, max_length=128)]


class ItemsPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Items of one table that are held within the same bound. `complete`: the table has no other keys upstream."""

    table: Word
    value: Word
    keys: Annotated[list[Any], Meta(min_length=1, max_length=MOST_ITEMS)]
    within: Annotated[float, Meta(ge=0)] = 0.0
    complete: bool = False


class UpstreamPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An upstream: one node, or several that serve the same log."""

    name: Word
    nodes: Annotated[list[Word], Meta(min_length=1, max_length=64)]
    items: Annotated[list[ItemsPart], Meta(min_length=1)]
    token_file: str | None = None


class SourcePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An address that is polled for the rows of one table, every so many seconds."""

    name: Word
    url: str
    define: str
    every: Above = 1.0
    timeout: Above = 10.0
    rows_at: list[str] = []
    only_changes: bool = True
    format: BodyFormat = BodyFormat.AUTO
    timezone: str | None = None


class PullPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A source that is asked for single items, when the queries on its table need them.

    `tick` is how exactly times are kept, in seconds; `longest` the ticks after which an item is asked for in any case;
    `rate` the requests a second that the server allows. `costs` are those of asking for a key, where they differ.
    `learnt` is a folder of statistics that `slackwater learn` has written, which the items begin with.
    """

    name: Word
    define: str
    value: Word
    url: str
    keys: Annotated[list[Word], Meta(min_length=1, max_length=MOST_ITEMS)]
    several: str | None = None
    together: Annotated[int, Meta(ge=1, le=1000)] = 50
    tick: Above = 1.0
    longest: Annotated[int, Meta(ge=1, le=100_000)] = 60
    timeout: Above = 10.0
    rate: Above = 20.0
    rows_at: list[str] = []
    format: BodyFormat = BodyFormat.AUTO
    costs: dict[str, Above] = {}
    learnt: str | None = None


class AggregatorPart(ServerPart, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A node that mirrors items of others; its address is given as for any node."""

    upstreams: tuple[UpstreamPart, ...] = ()
    sources: tuple[SourcePart, ...] = ()
    pulls: tuple[PullPart, ...] = ()


@dataclass(frozen=True, slots=True)
class UpstreamPlan:
    """An upstream, and the items wanted of it."""

    name: str
    nodes: tuple[str, ...]
    token: str | None
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """A source, and the table that its rows are for."""

    part: SourcePart
    schema: TableSchema


@dataclass(frozen=True, slots=True)
class PullPlan:
    """A source that is pulled, the table that its rows are for, and where it is asked."""

    part: PullPart
    schema: TableSchema
    endpoint: Endpoint
    learnt: ItemStatistics | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """All that an aggregator takes from others."""

    upstreams: tuple[UpstreamPlan, ...]
    sources: tuple[SourcePlan, ...]
    complete: frozenset[str] = frozenset()
    pulls: tuple[PullPlan, ...] = ()

    def mirrored_items(self) -> MirroredItems:
        """The items that it mirrors."""
        items = [item for upstream in self.upstreams for item in upstream.items]
        polled = {source.schema.name: source.part.name for source in self.sources}
        pulled = {
            table: PulledTable(pulls[0].part.value, frozenset((key,) for pull in pulls for key in pull.part.keys))
            for table, pulls in self.pulled().items()
        }
        return MirroredItems(items, self.complete, polled, pulled)

    def pulled(self) -> dict[str, list[PullPlan]]:
        """The sources of each table that is pulled: its items may live in many places."""
        tables: dict[str, list[PullPlan]] = {}
        for pull in self.pulls:
            tables.setdefault(pull.schema.name, []).append(pull)
        return tables


def read_part(path: Path, part: str | None = None) -> AggregatorPart:
    """Read a file of one aggregator, or of a deployment in which one is called `part`."""
    settings = read_settings(path, "see docs/aggregator.md for one")
    if part is None:
        return settings.check(settings.content, AggregatorPart, "")
    try:
        content = settings.content["aggregators"][part]
    except KeyError:
        raise SlackwaterError(f"{path} has no part [aggregators.{part}]") from None
    return settings.check(content, AggregatorPart, f", aggregator {part}", f"aggregators.{part}")


def plan_of(part: AggregatorPart, where: str, base: Path) -> Plan:
    """Build the plan, with every name and number checked; files are relative to `base`."""
    names = [*(one.name for one in part.upstreams), *(one.name for one in part.sources)]
    names += [one.name for one in part.pulls]
    if not names:
        raise SlackwaterError(f"{where}: an aggregator needs at least one of [[upstreams]], [[sources]] and [[pulls]]")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SlackwaterError(f"{where}: {', '.join(twice)} is the name of two upstreams or sources")
    upstreams = tuple(_upstream(one, where, base) for one in part.upstreams)
    sources = tuple(SourcePlan(one, _table(one, where)) for one in part.sources)
    _check_items([item for upstream in upstreams for item in upstream.items], where)
    mirrored = {items.table for upstream in part.upstreams for items in upstream.items}
    pulls = tuple(_pull(one, where, base) for one in part.pulls)
    polled = [source.schema.name for source in sources] + list({pull.schema.name for pull in pulls})
    _check_pulls(pulls, where)
    both = sorted(name for name in polled if name in mirrored or polled.count(name) > 1)
    if both:
        raise SlackwaterError(f"{where}: table {both[0]} comes from two places; give one of them another name")
    groups = [items for upstream in part.upstreams for items in upstream.items]
    complete = frozenset(items.table for items in groups if items.complete)
    return Plan(upstreams, sources, complete, pulls)


def _upstream(part: UpstreamPart, where: str, base: Path) -> UpstreamPlan:
    items = tuple(
        Item(part.name, group.table, group.value, _key(key, f"{where}: upstream {part.name}"), group.within)
        for group in part.items
        for key in group.keys
    )
    token = None
    if part.token_file is not None:
        try:
            token = (base / part.token_file).read_text().strip()
        except OSError as error:
            raise SlackwaterError(f"{where}: the token of {part.name} cannot be read: {error}") from None
    return UpstreamPlan(part.name, tuple(part.nodes), token, items)


def _key(written: Any, where: str) -> Key:
    parts = tuple(written) if isinstance(written, list) else (written,)
    return tuple(_scalar(part, where) for part in parts)


def _scalar(written: Any, where: str) -> Scalar:
    match written:
        case bool() | int() | float() | str():
            return written
        case datetime() if written.tzinfo is not None:
            return instant(written)
        case _:
            raise SlackwaterError(
                f"{where}: {written!r} is no part of a key: write text, a number, true, or a time with a zone"
            )


def _check_items(items: list[Item], where: str) -> None:
    if len(items) > MOST_ITEMS:
        raise SlackwaterError(f"{where}: {len(items)} items are more than the {MOST_ITEMS} of one aggregator")
    owners: dict[tuple[str, Key], str] = {}
    seen: set[tuple[str, Key, str]] = set()
    for item in items:
        if owners.setdefault((item.table, item.key), item.upstream) != item.upstream:
            raise SlackwaterError(f"{where}: the key {item.key} of {item.table} is asked for at two upstreams")
        if (item.table, item.key, item.column) in seen:
            raise SlackwaterError(f"{where}: {item.column} of {item.table} is asked for twice for the key {item.key}")
        seen.add((item.table, item.key, item.column))


def _pull(part: PullPart, where: str, base: Path) -> PullPlan:
    schema, where = _table(part, where), f"{where}: source {part.name}"
    column = next((one for one in schema.columns if one.name == part.value), None)
    if column is None or column.type is not DataType.DOUBLE or part.value in schema.key:
        raise SlackwaterError(f"{where}: value has to name a DOUBLE column that is no key, not {part.value!r}")
    if len(schema.key) != 1 or schema.column(schema.key[0]).type is not DataType.TEXT:
        raise SlackwaterError(f"{where}: the table needs a key of one TEXT column")
    strange = sorted({one for one in part.keys if part.keys.count(one) > 1} | set(part.costs) - set(part.keys))
    if strange:
        raise SlackwaterError(f"{where}: {strange[0]} is among the keys twice, or among the costs alone")
    try:
        endpoint = Endpoint(part.url, part.several, schema.key[0], part.value, part.format, part.together)
        learnt = None
        if part.learnt is not None:
            tick = round(part.tick * 1_000_000)
            learnt = read_learnt(base / part.learnt, schema.name, part.value, part.keys, tick)
    except SlackwaterError as error:
        raise SlackwaterError(f"{where}: {error}") from None
    return PullPlan(part, schema, endpoint, learnt)


def _check_pulls(pulls: tuple[PullPlan, ...], where: str) -> None:
    """Sources of one table: the same table, ticks and column, and each key once."""
    first: dict[str, PullPlan] = {}
    owners: dict[tuple[str, str], str] = {}
    for pull in pulls:
        part, other = pull.part, first.setdefault(pull.schema.name, pull)
        if (pull.schema, part.value, part.tick, part.longest) != (
            other.schema,
            other.part.value,
            other.part.tick,
            other.part.longest,
        ):
            raise SlackwaterError(
                f"{where}: {part.name} and {other.part.name} give the same table {pull.schema.name}, so define, value, "
                f"tick and longest have to be the same"
            )
        for key in part.keys:
            if owners.setdefault((pull.schema.name, key), part.name) != part.name:
                raise SlackwaterError(f"{where}: {key} of {pull.schema.name} is asked for at two sources")


def _table(part: SourcePart | PullPart, where: str) -> TableSchema:
    try:
        statement = bind(parse(part.define), Catalog(()))
    except SlackwaterError as error:
        raise SlackwaterError(f"{where}: source {part.name}: {error}") from None
    if not isinstance(statement, CreateTable):
        raise SlackwaterError(f"{where}: source {part.name}: define has to be CREATE TABLE …")
    return statement.schema
