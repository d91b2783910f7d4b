"""Generator protocol: a source of synthetic updates that is a function of its parameters and a seed.

Contract
    - The same parameters give the same rows, byte for byte, on every run; how they are cut into batches, and how
      many ticks are asked for, changes nothing. Random numbers are drawn in blocks of `BLOCK_TICKS` ticks.
    - A *tick* is a step of event time. Its rows share one event time: `start + tick number × tick`.
    - `$seq` numbers the rows from 0. The source's name holds the generator, the seed and a digest of the parameters:
      other parameters are another source, so that two runs are never taken for repeats of each other.
    - Without `ticks` a generator never ends.

A generator gives the fields of a frozen dataclass (its parameters, with defaults), `NAME`, `schema` and `blocks`.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.arrival import Arrival
from slackwater.core.arrow import INSTANT, OPERATION, SEQUENCE
from slackwater.core.errors import SourceError
from slackwater.core.schema import Column, TableSchema
from slackwater.core.types import DataType, Instant, instant
from slackwater.sources.base import BATCH_ROWS

BLOCK_TICKS = 1_024
BEGINNING = instant(datetime(2026, 1, 1, tzinfo=UTC))
MOST_ITEMS = 100_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of the ticks before `end`: the columns of the table without the time, and the tick of each row."""

    columns: tuple[pa.Array, ...]
    ticks: npt.NDArray[np.int64]
    end: int
    operations: npt.NDArray[np.int8] | None = None


@dataclass(frozen=True, kw_only=True)
class Generator:
    """The parameters that every generator has; `tick` is in microseconds of event time."""

    NAME: ClassVar[str]

    seed: int = 0
    tick: int = 100_000
    start: Instant = BEGINNING
    ticks: int | None = None
    table: str = ""
    batch_rows: int = BATCH_ROWS

    def __post_init__(self) -> None:
        self.require(self.seed >= 0, "the seed must be 0 or more")
        self.require(self.tick >= 0, "the tick must be 0 or more microseconds")
        self.require(self.ticks is None or self.ticks >= 0, "the number of ticks must be 0 or more")
        self.require(self.batch_rows >= 1, "a batch holds at least one row")

    @property
    @abstractmethod
    def schema(self) -> TableSchema:
        """The table it makes rows for; the last column is the event time `at`."""

    @abstractmethod
    def blocks(self, random: np.random.Generator) -> Iterator[Block]:
        """Make rows for ever, `BLOCK_TICKS` ticks at a time, from tick 0 on."""

    @property
    def source(self) -> str:
        """The name under which its rows are known."""
        apart = ("seed", "ticks", "table", "batch_rows")
        given = [f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.name not in apart]
        digest = hashlib.blake2b(",".join(given).encode(), digest_size=4).hexdigest()
        return f"{self.NAME}:{self.seed}:{digest}"

    def arrivals(self) -> Iterator[Arrival]:
        """Yield the rows in batches of `batch_rows` (the last one may be smaller)."""
        return self._batched(self._limited())

    def require(self, condition: bool, message: str) -> None:
        """Refuse parameters that make no sense."""
        if not condition:
            raise SourceError(f"generator {self.NAME}: {message}")

    def _limited(self) -> Iterator[pa.RecordBatch]:
        """The rows of whole blocks, up to the last tick, with time and sequence."""
        names = [column.name for column in self.schema.columns]
        done = 0
        for block in self.blocks(np.random.Generator(np.random.PCG64(self.seed))):
            last = self.ticks is not None and block.end >= self.ticks
            count = int(np.searchsorted(block.ticks, self.ticks)) if self.ticks is not None else len(block.ticks)
            if count:
                times = pa.array(self.start + block.ticks[:count] * self.tick, pa.int64()).cast(INSTANT)
                arrays = [*(column.slice(0, count) for column in block.columns), times]
                arrays.append(pa.array(np.arange(done, done + count), pa.int64()))
                extra = [SEQUENCE]
                if block.operations is not None:
                    arrays.append(pa.array(block.operations[:count], pa.int8()))
                    extra.append(OPERATION)
                yield pa.RecordBatch.from_arrays(arrays, names=[*names, *extra])
            done += count
            if last:
                return

    def _batched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Arrival]:
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            if rows >= self.batch_rows:
                whole = pa.concat_batches(held)
                for first in range(0, rows - rows % self.batch_rows, self.batch_rows):
                    yield self._arrival(whole.slice(first, self.batch_rows))
                held, rows = [whole.slice(rows - rows % self.batch_rows)], rows % self.batch_rows
        if rows:
            yield self._arrival(pa.concat_batches(held))

    def _arrival(self, batch: pa.RecordBatch) -> Arrival:
        rows = pc.add(batch.column(batch.schema.get_field_index(SEQUENCE)), 1)
        return Arrival(self.schema.name, self.source, batch, f"generator {self.NAME}", rows)


@dataclass(frozen=True, kw_only=True)
class ItemGenerator(Generator):
    """A generator of one value for each of `items` items in every tick: table (item, value, at).

    Subclasses make the values; items are called `i0`, `i1`, … .
    """

    items: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(1 <= self.items <= MOST_ITEMS, f"1 to {MOST_ITEMS:,} items, not {self.items}")

    @property
    def schema(self) -> TableSchema:
        """The items and their values."""
        return TableSchema(
            self.table or self.NAME,
            (
                Column(self.item_column, DataType.TEXT, nullable=False),
                Column(self.value_column, DataType.BIGINT if self.whole else DataType.DOUBLE),
                Column("at", DataType.TIMESTAMP, nullable=False),
            ),
            key=(self.item_column,),
            event_time="at",
        )

    @property
    def item_column(self) -> str:
        """Name of the item column."""
        return "item"

    @property
    def value_column(self) -> str:
        """Name of the value column."""
        return "value"

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers."""
        return False

    @property
    def block_ticks(self) -> int:
        """Ticks drawn at once: fewer when there are many items, so that a block stays small."""
        return max(1, min(BLOCK_TICKS, 1_000_000 // self.items))

    @abstractmethod
    def values(self, random: np.random.Generator) -> Iterator[Floats]:
        """Make arrays of `block_ticks` × items for ever."""

    def names(self) -> list[str]:
        """Names of the items."""
        return [f"i{index}" for index in range(self.items)]

    def blocks(self, random: np.random.Generator) -> Iterator[Block]:
        """Lay the values of each tick one after the other."""
        names = pa.array(self.names(), pa.string()).take(pa.array(np.tile(np.arange(self.items), self.block_ticks)))
        first = 0
        for values in self.values(random):
            flat = values.ravel()
            column = pa.array(flat.astype(np.int64) if self.whole else flat)
            ticks = np.repeat(np.arange(first, first + self.block_ticks), self.items)
            first += self.block_ticks
            yield Block((names, column), ticks, first)
