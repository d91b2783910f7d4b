"""Catalog: the tables, sources and subscriptions that a statement can name."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from slackwater.core.errors import SchemaError
from slackwater.core.schema import TableSchema
from slackwater.core.statement import Catalogued, CreateSource, SourceKind


@dataclass(frozen=True)
class Catalog:
    """The tables, the sources that feed them, and the names of the subscriptions.

    Names match whatever their case; two that differ only in case cannot both exist.

    >>> Catalog().names(Catalogued.TABLE)
    ()
    """

    tables: tuple[TableSchema, ...] = ()
    sources: tuple[CreateSource, ...] = ()
    subscriptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind in Catalogued:
            names = self.names(kind)
            if len({name.lower() for name in names}) != len(names):
                raise SchemaError(f"two {kind.value.lower()}s have the same name: {', '.join(sorted(names))}")

    def names(self, kind: Catalogued) -> tuple[str, ...]:
        """The names of everything of this kind."""
        match kind:
            case Catalogued.TABLE:
                return tuple(table.name for table in self.tables)
            case Catalogued.SOURCE:
                return tuple(source.name for source in self.sources)
            case Catalogued.SUBSCRIPTION:
                return self.subscriptions

    def table(self, name: str) -> TableSchema | None:
        """The table of this name, in whatever case it is written."""
        return next((table for table in self.tables if table.name.lower() == name.lower()), None)

    def pull_only(self, table: str) -> bool:
        """True if a table's only sources are polled by us: between two polls its true state is unknown."""
        kinds = {source.kind for source in self.sources if source.table == table}
        return kinds == {SourceKind.HTTP}


def spelled(name: str, names: Iterable[str]) -> str | None:
    """Resolve a name regardless of case, to its own spelling."""
    return next((known for known in names if known.lower() == name.lower()), None)


def column_spelled(table: TableSchema, name: str) -> str | None:
    """Resolve a column regardless of case, to the table's spelling."""
    return spelled(name, (column.name for column in table.columns))


def unknown(what: str, name: str, names: Iterable[str], where: str = "") -> str:
    """Error for an unknown name, with the most similar known one.

    >>> unknown("table", "qoutes", ["quotes", "cars"])
    "there is no table 'qoutes'; did you mean quotes?"
    """
    known = {each.lower(): each for each in names}
    shown = repr(name if len(name) <= 60 else name[:60] + "…")
    start = f"there is no {what} {shown}{where}"
    close = get_close_matches(name.lower(), known, n=1)
    if close:
        return f"{start}; did you mean {known[close[0]]}?"
    if not known:
        return f"{start}; there is none at all yet"
    listed = sorted(known.values())
    more = f" and {len(listed) - 20} more" if len(listed) > 20 else ""
    return f"{start}; there {'is' if len(listed) == 1 else 'are'} {', '.join(listed[:20])}{more}"
