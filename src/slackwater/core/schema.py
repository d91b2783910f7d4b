"""Table schema: columns, primary key and event-time column."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import cast

from slackwater.core.errors import SchemaError
from slackwater.core.types import DataType, Key, Row

RESERVED_PREFIX = "$"
"""Prefix of names that belong to Slackwater (`$time`, `$source`, …); no column may use them."""
LONGEST_NAME = 128
MOST_COLUMNS = 1024


def check_name(name: str, what: str) -> None:
    """Refuse names that SQL could not express or that are reserved."""
    if not name or len(name) > LONGEST_NAME:
        raise SchemaError(f"{what} name must have 1 to {LONGEST_NAME} characters, this one has {len(name)}")
    if name.startswith(RESERVED_PREFIX):
        raise SchemaError(f"{what} name {name!r} starts with {RESERVED_PREFIX!r}, which is kept for Slackwater")
    if any(ord(letter) < 32 for letter in name):
        raise SchemaError(f"{what} name {name!r} holds a control character")


@dataclass(frozen=True, slots=True)
class Column:
    """A named, typed column."""

    name: str
    type: DataType
    nullable: bool = True

    def __post_init__(self) -> None:
        check_name(self.name, "column")


@lru_cache(maxsize=1_024)
def shape(columns: tuple[str, ...], types: tuple[str, ...], key: tuple[str, ...]) -> str:
    """A fingerprint of what the cells of a row are: tables of one shape, and no others, read each other's rows.

    >>> shape(("id", "low", "high"), ("BIGINT", "DOUBLE", "DOUBLE"), ("id",))
    '9f511588e1f4fd44'
    """
    parts = [[f"{len(part)}:{part}" for part in some] for some in (columns, types, key)]
    return blake2b("/".join(",".join(some) for some in parts).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class TableSchema:
    """A table: columns in order, the names of the key columns, and the event-time column if there is one.

    >>> quotes = TableSchema(
    ...     "quotes",
    ...     (Column("symbol", DataType.TEXT, nullable=False), Column("price", DataType.DOUBLE)),
    ...     key=("symbol",),
    ... )
    >>> quotes.key_of(("IBM", 130.5))
    ('IBM',)
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    event_time: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "table")
        if not 1 <= len(self.columns) <= MOST_COLUMNS:
            raise SchemaError(f"table {self.name} has {len(self.columns)} columns; 1 to {MOST_COLUMNS} are allowed")
        seen: set[str] = set()
        for column in self.columns:
            if column.name.lower() in seen:
                raise SchemaError(f"table {self.name} has two columns called {column.name}")
            seen.add(column.name.lower())
        if not self.key:
            raise SchemaError(f"table {self.name} needs a PRIMARY KEY: it says which row an update replaces")
        if len(set(self.key)) != len(self.key):
            raise SchemaError(f"table {self.name} names a key column twice")
        for name in self.key:
            if self.column(name).nullable:
                raise SchemaError(f"key column {name} of table {self.name} must not be nullable")
        if self.event_time is not None and self.column(self.event_time).type is not DataType.TIMESTAMP:
            raise SchemaError(f"EVENT TIME {self.event_time} of table {self.name} must be a TIMESTAMP column")

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {column.name: position for position, column in enumerate(self.columns)}

    @cached_property
    def shape(self) -> str:
        """The fingerprint of a row with all columns."""
        return shape(
            tuple(column.name for column in self.columns), tuple(column.type.value for column in self.columns), self.key
        )

    @cached_property
    def _key_positions(self) -> tuple[int, ...]:
        return tuple(self.index(name) for name in self.key)

    def index(self, name: str) -> int:
        """Where the column stands in a row."""
        try:
            return self._positions[name]
        except KeyError:
            names = ", ".join(column.name for column in self.columns)
            raise SchemaError(f"table {self.name} has no column {name!r}; it has {names}") from None

    def column(self, name: str) -> Column:
        """Return the column of this name."""
        return self.columns[self.index(name)]

    def has(self, name: str) -> bool:
        """Whether there is a column of this name."""
        return name in self._positions

    @property
    def values(self) -> tuple[Column, ...]:
        """The columns that are neither key nor event time."""
        apart = {*self.key, self.event_time}
        return tuple(column for column in self.columns if column.name not in apart)

    def key_of(self, row: Row) -> Key:
        """Read the key off a row."""
        key = tuple([row[position] for position in self._key_positions])
        if None in key:
            raise SchemaError(f"a row of table {self.name} has a null in its key: {key}")
        return cast(Key, key)

    def with_column(self, column: Column) -> "TableSchema":
        """Return the schema with one more nullable column at the end: the only change that is allowed."""
        if not column.nullable:
            raise SchemaError(f"a column added to table {self.name} must be nullable: older rows do not have it")
        return replace(self, columns=(*self.columns, column))

    def check_change(self, newer: "TableSchema") -> None:
        """Refuse a `newer` schema that does anything but add nullable columns at the end."""
        if (newer.name, newer.key, newer.event_time) != (self.name, self.key, self.event_time):
            raise SchemaError(f"the name, key and event time of table {self.name} cannot be changed")
        kept, added = newer.columns[: len(self.columns)], newer.columns[len(self.columns) :]
        if kept != self.columns:
            raise SchemaError(
                f"columns of table {self.name} can only be added at the end; "
                f"existing ones cannot be changed, moved or dropped"
            )
        for column in added:
            if not column.nullable:
                raise SchemaError(f"column {column.name} added to table {self.name} must be nullable")
