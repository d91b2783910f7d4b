"""Prior of a pulled table: the statistics that `slackwater learn` has written, for its items."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slackwater.core.errors import SlackwaterError, StatisticsError
from slackwater.planning.pulling.item_prior import ItemPrior, priors_of
from slackwater.statistics.profile import Statistics


@dataclass(frozen=True, slots=True)
class ItemStatistics:
    """Priors of items by key, up to a moment (microseconds since 1970), and the keys nothing is known of."""

    priors: Mapping[str, ItemPrior]
    until: int
    without: tuple[str, ...]


def read_learnt(folder: Path, table: str, column: str, keys: Iterable[str], tick: int) -> ItemStatistics:
    """Read the statistics of a column; `tick` in microseconds.

    A folder, file, table or column that is not there is an error, and so are statistics of other items; keys that are
    missing among others begin from nothing.
    """
    file = folder / f"{table}.{column}.parquet".replace("/", "_")
    if not folder.is_dir():
        raise SlackwaterError(
            f"there is no folder {folder} with statistics: make it with `slackwater learn TRACE --out {folder}`, or "
            f"leave out learnt"
        )
    if not file.is_file():
        others = sorted(one.name.removesuffix(".parquet") for one in folder.glob("*.parquet"))
        there = f"there are statistics of {', '.join(others[:5])}" if others else "there are none at all"
        raise SlackwaterError(
            f"{folder} has no statistics of {table}.{column}; {there}. Make them with `slackwater learn TRACE --table "
            f"{table} --columns {column} --out {folder}`"
        )
    try:
        statistics = Statistics.read(file)
    except StatisticsError as error:
        raise SlackwaterError(str(error)) from None
    if (statistics.table, statistics.column) != (table, column):
        raise SlackwaterError(f"{file} is about {statistics.table}.{statistics.column}, not about {table}.{column}")
    wanted = list(keys)
    priors = priors_of(statistics, tick, frozenset(wanted))
    if not priors:
        known = ", ".join(sorted(statistics.names)[:3]) or "no item"
        raise SlackwaterError(
            f"{file} tells nothing, or too little, of {', '.join(wanted[:3])}: it is about {known}. Are these the same "
            f"keys?"
        )
    span = statistics.span()
    return ItemStatistics(priors, 0 if span is None else span[1], tuple(key for key in wanted if key not in priors))
