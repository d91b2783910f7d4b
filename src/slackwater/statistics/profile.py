"""Statistics profile: all summaries of one numeric column of one table, as one value and one file.

It is a summary like the others (update, merge, value, bytes), made of them: movement, moments, chain, histogram of
values for each item, and the similarity of all pairs where a `period` is given. Every part has seen the same ticks.

*The file* is Parquet with a row for each item, in order of name, readable by anything. Columns called
`movement.sumdiff`, `markov.before` and so on hold the parts as they are, so that what is read can be updated and
merged further; columns called `figures.…` are derived from them, for people and other programs, and are not read
back. The schema's metadata holds a JSON note under the key `slackwater`: kind, version, table, column, time range,
parameters of each part. See docs/statistics.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.core.durable_file import replace_file
from slackwater.core.errors import StatisticsError, StoreError
from slackwater.statistics import encoding
from slackwater.statistics.base import check_agreement
from slackwater.statistics.histogram import Histogram, HistogramFigures
from slackwater.statistics.markov import ChainFigures, Markov
from slackwater.statistics.moments import MomentFigures, Moments
from slackwater.statistics.movement import Movement, MovementFigures
from slackwater.statistics.neighbours import Similarities
from slackwater.statistics.rules import Rules
from slackwater.statistics.similarity import Similarity
from slackwater.statistics.ticks import Ticks

NEIGHBOURS = 10


@dataclass(frozen=True, eq=False)
class StatisticsFigures:
    """The figures of all parts; all list the same items in the same order."""

    items: tuple[str, ...]
    movement: MovementFigures
    moments: MomentFigures
    markov: ChainFigures
    histogram: HistogramFigures
    similarity: Similarities | None


class Statistics(encoding.EncodedSummary):
    """All summaries of one column.

    `period` is the grid of the similarity, None leaves the pairs out; `tick`, `spacing` and `widest` are the chain's
    (`markov`).

    >>> statistics = Statistics("quotes", "price", period=1_000_000)
    >>> statistics.update(Ticks.of(["IBM", "MSFT"] * 2, [0, 0, 1_000_000, 1_000_000], [100.0, 300.0, 101.0, 302.0]))
    >>> statistics.value().movement.sumdiff.tolist(), statistics.value().similarity.cosine("IBM", "MSFT")
    ([1.0, 2.0], 1.0)
    """

    kind: ClassVar[str] = "statistics"

    def __init__(
        self,
        table: str,
        column: str,
        rules: Rules | None = None,
        *,
        period: int | None = None,
        lags: int = 4,
        tick: int | None = None,
        spacing: float | Mapping[str, float] | None = None,
        widest: int | None = None,
        cells: int = 512,
        most_items: int = 4096,
    ) -> None:
        rules = rules or Rules()
        self.table, self.column, self.rules = table, column, rules
        self.movement = Movement(rules)
        self.moments = Moments(rules, lags)
        self.markov = Markov(rules, tick, spacing, widest, cells)
        self.histogram = Histogram(rules, cells)
        self.similarity = None if period is None else Similarity(rules, period=period, most_items=most_items)

    def parameters(self) -> dict[str, Any]:
        """What the summary was made with."""
        markov = self.markov.parameters()
        return {
            "table": self.table,
            "column": self.column,
            **self.rules.parameters(),
            "period": None if self.similarity is None else self.similarity.period,
            "most_items": 4096 if self.similarity is None else self.similarity.most_items,
            "lags": self.moments.lags,
            **{name: markov[name] for name in ("tick", "spacing", "widest", "cells")},
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The items, in the order in which they were first met."""
        return self.movement.names

    def span(self) -> tuple[int, int] | None:
        """The first and the last moment counted, or None."""
        return self.movement.span()

    def update(self, batch: Ticks) -> None:
        """Count a batch of ticks."""
        if len(batch) == 0:
            return
        # What can be refused is refused by the first two, before anything is taken: the others ask for less.
        if self.similarity is not None:
            self.similarity.check_follows(int(batch.times.min()))
            self.similarity.check_room(batch.names)
        self.markov.check_spacings(batch.names)
        for part in (self.movement, self.moments, self.markov, self.histogram):
            part.update(batch)
        if self.similarity is not None:
            self.similarity.update(batch)

    def merge(self, later: Self) -> None:
        """Count what another summary has counted, which came after."""
        check_agreement(self, later)
        span = later.span()
        if self.similarity is not None:
            self.similarity.check_follows(None if span is None else span[0])
            self.similarity.check_room(later.names)
        self.movement.merge(later.movement)
        self.moments.merge(later.moments)
        self.markov.merge(later.markov)
        self.histogram.merge(later.histogram)
        if self.similarity is not None and later.similarity is not None:
            self.similarity.merge(later.similarity)

    def value(self) -> StatisticsFigures:
        """The figures of all parts."""
        movement = self.movement.value()
        return StatisticsFigures(
            movement.items,
            movement,
            self.moments.value(),
            self.markov.value(),
            self.histogram.value(),
            None if self.similarity is None else self.similarity.value(),
        )

    def to_table(self) -> pa.Table:
        """A row for each item, in order of name: the columns of all parts under the part's name."""
        columns: dict[str, Any] = {}
        for part in self._parts():
            table = part.to_table()
            columns["item"] = table.column("item")
            columns |= {f"{part.kind}.{name}": table.column(name) for name in table.schema.names if name != "item"}
        return pa.table(columns)

    @classmethod
    def from_table(cls, table: pa.Table, parameters: dict[str, Any]) -> Self:
        """The statistics that such a table was made of."""
        known = dict(parameters)
        statistics = cls(rules=Rules(known.pop("longest_gap"), known.pop("half_life")), **known)
        for part in statistics._parts():
            prefix = f"{part.kind}."
            names = [name for name in table.schema.names if name.startswith(prefix)]
            own = table.select(["item", *names]).rename_columns(["item", *(name[len(prefix) :] for name in names)])
            setattr(statistics, part.kind, type(part).from_table(own, part.parameters()))
        return statistics

    def write(self, path: Path | str) -> None:
        """Write the statistics file; a file that is there is replaced at once or not at all."""
        table = self.to_table()
        for name, column in self._figures().items():
            table = table.append_column(f"figures.{name}", column)
        span = self.span()
        note = {
            "kind": self.kind,
            "version": encoding.VERSION,
            "table": self.table,
            "column": self.column,
            "items": table.num_rows,
            "first_time": None if span is None else span[0],
            "last_time": None if span is None else span[1],
            "parameters": self.parameters(),
        }
        path = Path(path)
        content = pa.BufferOutputStream()
        pq.write_table(encoding.annotate(table, note), content, compression="zstd")
        try:
            replace_file(path, content.getvalue().to_pybytes())
        except StoreError as error:
            raise StatisticsError(f"statistics cannot be written to {path}: {error.__cause__}") from None

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Read a statistics file."""
        try:
            note = encoding.noted(pq.read_schema(path), cls.kind)
            table = pq.read_table(path)
            return cls.from_table(table, note["parameters"])
        except FileNotFoundError:
            raise StatisticsError(f"there is no statistics file {path}: make one with `slackwater learn`") from None
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise StatisticsError(f"{path} is not a statistics file that can be read: {error}") from None

    def _parts(self) -> tuple[Movement | Moments | Markov | Histogram | Similarity, ...]:
        parts = (self.movement, self.moments, self.markov, self.histogram)
        return parts if self.similarity is None else (*parts, self.similarity)

    def _figures(self) -> dict[str, Any]:
        """Derived columns for people and other programs."""
        figures = self.value()
        movement, moments = figures.movement, figures.moments
        columns: dict[str, Any] = {
            "sumdiff": movement.sumdiff,
            "per_tick": movement.per_tick,
            "per_second": movement.per_second,
            "mean_change": movement.mean_change,
            "deviation_of_change": movement.deviation,
            "mean": moments.mean,
            "variance": moments.variance,
            "ar1_coefficient": moments.coefficient,
            "ar1_constant": moments.constant,
            "ar1_noise": moments.noise,
            "state_spacing": [chain.spacing for chain in figures.markov.chains],
        }
        arrays = {name: pa.array(column, pa.float64()) for name, column in columns.items()}
        if figures.similarity is not None:
            places, rho = figures.similarity.neighbours(NEIGHBOURS)
            entries = pa.array(
                [
                    [{"item": figures.items[place], "rho": cosine} for place, cosine in zip(*row, strict=True)]
                    for row in zip(places.tolist(), rho.tolist(), strict=True)
                ],
                pa.list_(pa.struct({"item": pa.string(), "rho": pa.float64()})),
            )
            arrays["neighbours"] = entries
        return arrays
