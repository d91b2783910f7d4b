"""Read options of a file: a plain value, inferred (`inference.infer`) or written down."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from slackwater.core.errors import SourceError
from slackwater.core.schema import TableSchema
from slackwater.sources.file_format import Format, detect
from slackwater.sources.shape import Shape
from slackwater.sources.times import check_timezone


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything needed to read a file the same way again.

    `naive` says that times in the file carry no zone: without a `timezone` admission will refuse them all.
    `items` are the item columns of a wide file. `names` replaces the header of a CSV file that has none.
    """

    path: Path
    format: Format
    shape: Shape
    schema: TableSchema
    source: str
    timezone: str | None = None
    naive: bool = False
    items: tuple[str, ...] = ()
    delimiter: str = ","
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.timezone is not None:
            check_timezone(self.timezone)
        if self.shape is Shape.WIDE and (self.schema.event_time is None or not self.items):
            raise SourceError(f"{self.path} cannot be read as wide without a time column and item columns")
        if not self.source:
            raise SourceError(f"the source for {self.path} needs a name")

    @property
    def time(self) -> str | None:
        """The time column."""
        return self.schema.event_time

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns."""
        return self.schema.key

    @property
    def lacks_timezone(self) -> bool:
        """Whether a time zone must be given before any row of the file can be admitted."""
        return self.naive and self.timezone is None


def read_as(
    path: Path | str,
    schema: TableSchema,
    *,
    source: str | None = None,
    timezone: str | None = None,
    format: Format | None = None,
    delimiter: str | None = None,
    names: tuple[str, ...] | None = None,
) -> Reading:
    """Read a long file into a table that is already defined: nothing is inferred."""
    path = Path(path)
    found = format or detect(path)
    return Reading(
        path,
        found,
        Shape.LONG,
        schema,
        source or default_source(path),
        timezone,
        delimiter=delimiter or default_delimiter(path),
        names=names,
    )


def default_source(path: Path) -> str:
    """The file's name and a mark of its folder: files of one name in two folders are two sources.

    >>> default_source(Path("a/t.csv")) != default_source(Path("b/t.csv"))
    True
    """
    folder = hashlib.blake2b(str(path.resolve().parent).encode("utf-8", "replace"), digest_size=3).hexdigest()
    return f"{path.name}@{folder}"


def default_delimiter(path: Path) -> str:
    """Tab for `.tsv`, comma for the rest.

    >>> default_delimiter(Path("a.tsv.gz"))
    '\\t'
    """
    return "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else ","
