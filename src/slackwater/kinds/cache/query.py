"""Cache query: the client, its table, its capacity in rows, and the region that is pushed to it.

A client subscribes to it by a text of its own, `CACHE desk-7 OF cars LIMIT 10000`, which stands with the registration
in the log. The query beside it is stored as the selection that its labels are: a relabelling registers another one
under the same text, with a higher epoch.
"""

import re
from dataclasses import dataclass

from slackwater.core.bound import EXACT, Bound
from slackwater.core.query import AnswerShape, Selection, StandingQuery
from slackwater.core.region import Region

_TEXT = re.compile(r'CACHE ([\w.-]{1,64}) OF ("(?:[^"]|"")+"|\w+) LIMIT ([1-9]\d{0,11})', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CacheText:
    """Text of a cache subscription: client, table and capacity in rows.

    >>> str(CacheText.read("cache desk-7 of cars limit 500"))
    'CACHE desk-7 OF cars LIMIT 500'
    """

    client: str
    table: str
    limit: int

    def __str__(self) -> str:
        table = self.table if self.table.isidentifier() else '"' + self.table.replace('"', '""') + '"'
        return f"CACHE {self.client} OF {table} LIMIT {self.limit}"

    @classmethod
    def read(cls, text: str) -> "CacheText | None":
        """Parse the text of a cache subscription; None where it is a text of another kind.

        >>> CacheText.read("SUBSCRIBE SELECT * FROM cars") is None
        True
        """
        found = _TEXT.fullmatch(text.strip()) if text.lstrip()[:5].upper() == "CACHE" else None
        if found is None:
            return None
        table = found[2][1:-1].replace('""', '"') if found[2].startswith('"') else found[2]
        return cls(found[1], table, int(found[3]))


@dataclass(frozen=True, slots=True)
class CacheQuery:
    """All columns of the rows that are pushed to a client; the client pulls other rows on demand."""

    client: str
    limit: int
    table: str
    columns: tuple[str, ...]
    region: Region

    @property
    def tables(self) -> tuple[str, ...]:
        """The table that it replicates."""
        return (self.table,)

    @property
    def shape(self) -> AnswerShape:
        """Rows by key."""
        return AnswerShape.ROWS

    @property
    def bound(self) -> Bound:
        """Rows are exact."""
        return EXACT

    @property
    def pushed(self) -> Region:
        """The pushed region, from its labels."""
        return self.region

    @property
    def selection(self) -> Selection:
        """The rows that are pushed."""
        return Selection(self.table, self.columns, self.region)


def as_cache(query: StandingQuery | None) -> CacheQuery | None:
    """The query, if it is a client's cache."""
    return query if isinstance(query, CacheQuery) else None
