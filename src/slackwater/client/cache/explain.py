"""EXPLAIN of a cache: the regions of a query that are pushed, and those that would be pulled."""

from slackwater.client.cache.state import CacheState
from slackwater.core.errors import AlgebraError
from slackwater.core.region import NOTHING, Region
from slackwater.sql.explain_tree import Detail, ExplainTree
from slackwater.sql.required_rows import Needed

_MOST_SHOWN = 10


def explained(name: str, asked: Needed, state: CacheState, now: int) -> ExplainTree:
    """Explain how a cache would answer a query at this moment."""
    parts = tuple(_table(table, asked, state, now) for table in asked.query.tables)
    return ExplainTree("cache", (Detail("name", name),), parts)


def _table(table: str, asked: Needed, state: CacheState, now: int) -> ExplainTree:
    own = state.cached(table)
    region = NOTHING if own is None else own.region
    try:
        here, there = asked.region.intersect(region), asked.region.subtract(region)
    except AlgebraError:
        here, there = NOTHING, asked.region
    details = [
        Detail("epoch", None if own is None else own.epoch),
        Detail("from position", None if own is None else own.since),
        Detail("pushed", _boxes(here)),
        Detail("pulled", _boxes(there)),
    ]
    as_of = state.at_home(table, asked.region, 0, now)
    if as_of is not None:
        how = f"from the cache, as of {as_of}"
    elif not (len(asked.query.tables) == 1 and asked.rowwise):
        how = "by the server"
    elif there.empty:
        how = "asked for, as the server does not vouch for the cache at the moment"
    else:
        how = "asked for" if here.empty else "the pulled part is asked for, the pushed part is from the cache"
    return ExplainTree(f"table {table}", (*details, Detail("answered", how)))


def _boxes(region: Region) -> tuple[str, ...]:
    more = (f"and {len(region.boxes) - _MOST_SHOWN} more",) if len(region.boxes) > _MOST_SHOWN else ()
    return (*(str(box) for box in region.boxes[:_MOST_SHOWN]), *more) or ("nothing",)
