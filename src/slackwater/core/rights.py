"""Row-level rights: the region of each table that a principal may see.

A grant is a value: queries are conjoined with it when they are bound, and it is a part of what makes two registrations
one query.

>>> from slackwater.core.extent import Interval
>>> from slackwater.core.region import Box, Region, Side
>>> cheap = Region((Box.of(Side("price", Interval(0, 10))),))
>>> grant = EVERY_ROW.granting("Quotes", cheap)
>>> grant.of("quotes") == cheap, grant.of("orders") == EVERYTHING, grant.on(["orders"]) == EVERY_ROW
(True, True, True)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slackwater.core.region import EVERYTHING, Region
from slackwater.core.region_codec import plain_region, region_of


@dataclass(frozen=True, slots=True)
class Grant:
    """The region of each table that is restricted, in order of the names, which are the same in any case."""

    regions: tuple[tuple[str, Region], ...] = ()

    def of(self, table: str) -> Region:
        """The rows of a table that may be seen."""
        return next((region for name, region in self.regions if name == table.lower()), EVERYTHING)

    def on(self, tables: Iterable[str]) -> "Grant":
        """What concerns these tables."""
        names = {table.lower() for table in tables}
        return Grant(tuple(one for one in self.regions if one[0] in names)) if self.regions else self

    def granting(self, table: str, region: Region) -> "Grant":
        """The same with another region of one table."""
        regions = dict(self.regions) | {table.lower(): region}
        return Grant(tuple((name, regions[name]) for name in sorted(regions) if regions[name] != EVERYTHING))

    def plain(self) -> list[Any]:
        """As lists, for the log, snapshots and files."""
        return [[name, plain_region(region)] for name, region in self.regions]

    @classmethod
    def read(cls, plain: Iterable[Any]) -> "Grant":
        """The grant that such lists were made of."""
        if plain == []:
            return EVERY_ROW
        return cls(tuple((str(name), region_of(region)) for name, region in plain))


EVERY_ROW = Grant()
"""No restriction."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The grants of all principals; a principal without one may see everything."""

    grants: Mapping[str, Grant] = field(default_factory=dict)
    changed: Mapping[str, int] = field(default_factory=dict)
    """The position of the log at which a principal's grant was last another."""

    def of(self, principal: str) -> Grant:
        """The grant of a principal."""
        return self.grants.get(principal, EVERY_ROW)

    def since(self, principal: str) -> int:
        """A position up to which what the principal was sent may be of another grant; −1 where it never changed."""
        return self.changed.get(principal, -1)
