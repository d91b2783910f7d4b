"""`slackwater demo`: a made-up market through admission into a real log, watched live.

The generator's rows pass admission into a log on disk; a reader that follows the log keeps the latest value of every
symbol. To show what admission does, a few rows are spoilt on purpose and a few batches sent twice; the table counts
them. What is shown is read back from the log, not from the generator.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.columns import Columns
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from slackwater.cli.output import AsJson, console, need_node, plain, print_json, table
from slackwater.core.types import Instant, Position, moment
from slackwater.wallclock import WallClock

if TYPE_CHECKING:
    from slackwater.core.arrival import Arrival
    from slackwater.intake import Receipt
    from slackwater.log import Log

SHOWN, COLUMNS = 12, 4
SPOILT_EVERY = 1_000
REPEATED_EVERY = 20
_REDRAWN_EVERY = 0.25
_TOLD_EVERY = 5.0
_BEGINNING = Position(0)


@dataclass(slots=True)
class Latest:
    """The latest price of every symbol, folded from the log: the greatest (event time, source, sequence) wins."""

    ranks: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    prices: dict[str, float] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)
    position: Position = _BEGINNING

    def follow(self, log: "Log") -> None:
        """Read what is new in the log."""
        from slackwater.core.arrow import EVENT_TIME, SEQUENCE, SOURCE
        from slackwater.log import Updates

        end = log.end
        for entry in log.read(self.position, end):
            if not isinstance(entry.record, Updates):
                continue
            batch = entry.record.batch
            columns = (
                batch.column("symbol"),
                batch.column("price"),
                batch.column(EVENT_TIME).cast("int64"),
                batch.column(SOURCE),
                batch.column(SEQUENCE),
            )
            for symbol, price, *rank in zip(*(column.to_pylist() for column in columns), strict=True):
                if tuple(rank) > self.ranks.get(symbol, (0, "", -1)):
                    self.ranks[symbol] = (rank[0], rank[1], rank[2])
                    self.before[symbol] = self.prices.get(symbol, price)
                    self.prices[symbol] = price
        self.position = end


@dataclass(slots=True)
class Totals:
    """What has been counted since the beginning."""

    started: float
    accepted: int = 0
    quarantined: int = 0
    repeats: int = 0
    appends: int = 0
    position: int = 0
    size: int = 0

    def add(self, receipt: "Receipt") -> None:
        """Count one append."""
        self.accepted += receipt.accepted
        self.quarantined += receipt.quarantined
        self.repeats += receipt.repeats
        self.appends += 1
        self.position = receipt.position

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return max(time.monotonic() - self.started, 1e-9)


def demo(
    seconds: Annotated[float | None, typer.Option("--for", min=0, help="End after so many seconds.")] = None,
    items: Annotated[int, typer.Option("--items", min=1, max=10_000, help="How many shares.")] = 100,
    rate: Annotated[float, typer.Option("--rate", min=1, max=1e6, help="Updates a second.")] = 5_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed, another market.")] = 1,
    folder: Annotated[
        Path | None, typer.Option("--log", help="Keep the log in this folder [default: a temporary one].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Watch a made-up market pass admission into a log. Ctrl-C, or --for SECONDS, ends it."""
    need_node()
    from slackwater.intake import MEMORY_FILE, Intake
    from slackwater.log import LocalLog
    from slackwater.sources import Market, Pace, Replay

    clock = WallClock()
    # Event time starts now, so every run is a source of its own and nothing is a repeat of the run before.
    market = Market(items=items, seed=seed, start=clock.now(), tick=round(items / rate * 1_000_000), table="quotes")
    with ExitStack() as stack:
        path = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slackwater-demo-")))
        log = stack.enter_context(LocalLog(path))
        intake = stack.enter_context(Intake(log, clock, memory=path / MEMORY_FILE))
        intake.define(market.schema)
        reader = stack.enter_context(LocalLog(path, read_only=True))
        latest = Latest(position=reader.end)
        totals = Totals(time.monotonic())
        screen = stack.enter_context(_Screen(quiet=as_json))
        try:
            for arrival in _rough(Replay(market, clock, Pace(speed=1.0), seconds=seconds).arrivals()):
                totals.add(intake.take([arrival]))
                if screen.due():
                    latest.follow(reader)
                    totals.size = sum(span.size for span in log.spans)
                    screen.show(totals, latest)
        except KeyboardInterrupt:
            pass
        latest.follow(reader)
        totals.size = sum(span.size for span in log.spans)
        screen.show(totals, latest)
    if as_json:
        print_json(_summary(totals, latest))
    else:
        kept = f"; the log is in {folder}" if folder else ""
        console.print(
            f"{totals.accepted:,} updates in {totals.seconds:.0f} s into a log of {totals.position:,} positions, "
            f"{totals.quarantined:,} rows quarantined, {totals.repeats:,} repeats left out{plain(kept)}"
        )


def _rough(arrivals: "Iterator[Arrival]") -> "Iterator[Arrival]":
    """The same rows over a rough line: one price in a thousand is spoilt, one batch in twenty comes twice."""
    from dataclasses import replace

    import pyarrow as pa
    import pyarrow.compute as pc

    for ordinal, arrival in enumerate(arrivals):
        batch = arrival.batch
        numbers = batch.column("$seq").to_numpy()
        spoilt = pa.array(numbers % SPOILT_EVERY == SPOILT_EVERY - 1)
        place = batch.schema.get_field_index("price")
        prices = pc.if_else(spoilt, float("nan"), batch.column(place))
        yield replace(arrival, batch=batch.set_column(place, "price", prices))
        if ordinal % REPEATED_EVERY == REPEATED_EVERY - 1:
            yield arrival


class _Screen:
    """A live table on a terminal, a line now and then elsewhere, nothing when quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal and not quiet else None
        self._quiet = quiet
        self._next = 0.0

    def __enter__(self) -> "_Screen":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def due(self) -> bool:
        """Whether it is time to draw again."""
        return time.monotonic() >= self._next

    def show(self, totals: Totals, latest: Latest) -> None:
        """Draw."""
        if self._live:
            self._next = time.monotonic() + _REDRAWN_EVERY
            self._live.update(_drawn(totals, latest), refresh=True)
        elif not self._quiet:
            self._next = time.monotonic() + _TOLD_EVERY
            console.print(
                f"{totals.seconds:6.1f} s  {totals.accepted / totals.seconds:9,.0f} updates/s  "
                f"position {totals.position:,}  {totals.quarantined:,} quarantined  {totals.repeats:,} repeats"
            )


def _drawn(totals: Totals, latest: Latest) -> Group:
    rates = table("generator → admission → log", "", "total", "a second", numbers=(1, 2))
    for name, count in (
        ("updates accepted", totals.accepted),
        ("quarantined (spoilt on purpose)", totals.quarantined),
        ("repeats left out (sent twice on purpose)", totals.repeats),
        ("durable appends", totals.appends),
        ("bytes in the log", totals.size),
    ):
        rates.add_row(name, f"{count:,}", f"{count / totals.seconds:,.1f}")
    title = Text(f"latest of {len(latest.prices)} symbols, read back from the log", "bold")
    symbols = sorted(latest.prices)[: SHOWN * COLUMNS]
    stacks = [_stack(symbols[first : first + SHOWN], latest) for first in range(0, len(symbols), SHOWN)]
    newest = max((rank[0] for rank in latest.ranks.values()), default=None)
    when = "" if newest is None else f" · newest event {moment(Instant(newest)):%H:%M:%S.%f}"[:-3] + " UTC"
    foot = Text(f"{totals.seconds:.0f} s · log position {totals.position:,}{when} · Ctrl-C ends", "dim")
    return Group(rates, Text(""), title, Columns(stacks, padding=(0, 4)), Text(""), foot)


def _stack(symbols: list[str], latest: Latest) -> Table:
    prices = table("", "symbol", "price", "", numbers=(1,))
    for symbol in symbols:
        price, before = latest.prices[symbol], latest.before[symbol]
        arrow = Text("▲", "green") if price > before else Text("▼", "red") if price < before else Text("·", "dim")
        prices.add_row(symbol, f"{price:,.2f}", arrow)
    return prices


def _summary(totals: Totals, latest: Latest) -> dict[str, Any]:
    return {
        "seconds": round(totals.seconds, 2),
        "accepted": totals.accepted,
        "quarantined": totals.quarantined,
        "repeats": totals.repeats,
        "appends": totals.appends,
        "position": totals.position,
        "log_bytes": totals.size,
        "updates_per_second": round(totals.accepted / totals.seconds, 1),
        "latest": [{"symbol": symbol, "price": price} for symbol, price in sorted(latest.prices.items())],
    }
