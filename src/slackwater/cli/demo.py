"""`slackwater demo`: a made-up market through admission into a real log and on through Spark, watched live.

The generator's rows pass admission into a log on disk. Spark takes the log into latest, history and quarantine; a
reader that follows the log keeps the latest prices and statistics of every symbol. To show what admission does, a few
rows are spoilt on purpose and a few batches sent twice; the table counts them. What is shown is read back from the
log and from what Spark keeps, not from the generator.
"""

import importlib.util
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.columns import Columns
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from slackwater.cli.output import AsJson, console, need_node, need_spark, plain, print_json, table
from slackwater.core.types import Instant, Position, moment
from slackwater.wallclock import WallClock

if TYPE_CHECKING:
    from slackwater.core.arrival import Arrival
    from slackwater.intake import Receipt
    from slackwater.log import Log
    from slackwater.pipeline.stream import Pipeline, Progress
    from slackwater.statistics import Statistics

SHOWN, COLUMNS = 12, 4
SPOILT_EVERY = 1_000
REPEATED_EVERY = 20
_REDRAWN_EVERY = 0.25
_TOLD_EVERY = 5.0
_PATIENCE = 30.0
_BEGINNING = Position(0)


@dataclass(slots=True)
class Latest:
    """The latest price of every symbol, folded from the log: the greatest (event time, source, sequence) wins."""

    ranks: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    prices: dict[str, float] = field(default_factory=dict)
    statistics: "Statistics | None" = None
    before: dict[str, float] = field(default_factory=dict)
    position: Position = _BEGINNING

    def follow(self, log: "Log") -> None:
        """Read what is new in the log."""
        from slackwater.core.arrow import EVENT_TIME, SEQUENCE, SOURCE
        from slackwater.log import Updates
        from slackwater.statistics import Ticks

        end = log.end
        for entry in log.read(self.position, end):
            if not isinstance(entry.record, Updates):
                continue
            batch = entry.record.batch
            if self.statistics is not None:
                self.statistics.update(Ticks.from_arrow(batch, "symbol", EVENT_TIME, "price"))
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
class Kept:
    """What Spark has taken in so far."""

    position: int = 0
    milliseconds: list[float] = field(default_factory=list)
    latest: int | None = None
    history: int | None = None
    agrees: bool | None = None

    def took(self, progress: "Progress") -> None:
        """Note one micro-batch."""
        self.position = progress.position
        self.milliseconds.append(1000 * (progress.seconds - progress.settling))

    @property
    def median(self) -> float:
        """Of the last micro-batches, the first ones being slower."""
        return statistics.median(self.milliseconds[-100:]) if self.milliseconds else 0.0

    def compare(self, folder: Path, latest: Latest) -> None:
        """Read what is kept and compare it with what the log says."""
        from slackwater.pipeline.snapshot import read_history, read_latest

        rows = read_latest(folder, "quotes")
        kept = dict(zip(rows.column("symbol").to_pylist(), rows.column("price").to_pylist(), strict=True))
        self.latest, self.agrees = len(kept), kept == latest.prices
        self.history = read_history(folder, "quotes").count_rows()


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
    ended: float | None = None

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
        return max((self.ended or time.monotonic()) - self.started, 1e-9)


def demo(
    seconds: Annotated[float | None, typer.Option("--for", min=0, help="End after so many seconds.")] = None,
    items: Annotated[int, typer.Option("--items", min=1, max=10_000, help="How many shares.")] = 100,
    rate: Annotated[float, typer.Option("--rate", min=1, max=1e6, help="Updates a second.")] = 5_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed, another market.")] = 1,
    spark: Annotated[bool | None, typer.Option("--spark/--no-spark", help="[default: where it is installed]")] = None,
    folder: Annotated[
        Path | None, typer.Option("--data", help="Keep log and tables in this folder [default: a temporary one].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Watch a made-up market pass admission into a log and on through Spark. Ctrl-C, or --for SECONDS, ends it."""
    need_node()
    if spark is None:
        spark = importlib.util.find_spec("pyspark") is not None
    elif spark:
        need_spark()
    from slackwater.intake import MEMORY_FILE, Intake
    from slackwater.log import LocalLog
    from slackwater.sources import Market, Pace, Replay
    from slackwater.statistics import Statistics

    clock = WallClock()
    with ExitStack() as stack:
        path = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slackwater-demo-")))
        log = stack.enter_context(LocalLog(path / "log"))
        intake = stack.enter_context(Intake(log, clock, memory=path / "log" / MEMORY_FILE))
        kept = Kept()
        pipeline = stack.enter_context(_pipeline(path, kept, quiet=as_json)) if spark else None
        # Event time starts now, so every run is a source of its own and nothing is a repeat of the run before.
        market = Market(items=items, seed=seed, start=clock.now(), tick=round(items / rate * 1_000_000), table="quotes")
        intake.define(market.schema)
        reader = stack.enter_context(LocalLog(path / "log", read_only=True))
        latest = Latest(position=reader.end, statistics=Statistics("quotes", "price"))
        totals = Totals(time.monotonic())
        screen = stack.enter_context(_Screen(quiet=as_json))
        try:
            for arrival in _rough(Replay(market, clock, Pace(speed=1.0), seconds=seconds).arrivals()):
                totals.add(intake.take([arrival]))
                if screen.due():
                    latest.follow(reader)
                    totals.size = sum(span.size for span in log.spans)
                    screen.show(totals, latest, kept if pipeline else None)
        except KeyboardInterrupt:
            pass
        totals.ended = time.monotonic()
        latest.follow(reader)
        totals.size = sum(span.size for span in log.spans)
        if pipeline is not None:
            _catch_up(pipeline, log.end)
            pipeline.stop()
            kept.position = pipeline.position
            kept.compare(path / "kept", latest)
        screen.show(totals, latest, kept if pipeline else None)
    if as_json:
        print_json(_summary(totals, latest, kept if spark else None))
        return
    console.print(
        f"{totals.accepted:,} updates in {totals.seconds:.0f} s into a log of {totals.position:,} positions, "
        f"{totals.quarantined:,} rows quarantined, {totals.repeats:,} repeats left out"
    )
    if spark:
        agrees = "agrees with the log" if kept.agrees else "[bold red]does not agree with the log[/]"
        console.print(
            f"Spark kept {kept.latest:,} latest rows and {kept.history:,} rows of history up to position "
            f"{kept.position:,} in {len(kept.milliseconds)} micro-batches (median {kept.median:.0f} ms); "
            f"latest {agrees}"
        )
    if folder:
        console.print(f"log and tables are in {plain(folder)}")


@contextmanager
def _pipeline(path: Path, kept: Kept, *, quiet: bool) -> "Iterator[Pipeline]":
    """Spark, following the log until it is stopped."""
    from slackwater.pipeline.session import build_session
    from slackwater.pipeline.stream import run_pipeline

    with nullcontext() if quiet else console.status("starting Spark"):
        session = build_session("local[2]")
    try:
        with run_pipeline(path / "log", path / "kept", session, progress=kept.took) as pipeline:
            yield pipeline
    finally:
        session.stop()


def _catch_up(pipeline: "Pipeline", end: Position) -> None:
    """Give Spark the time to take in what is in the log."""
    give_up = time.monotonic() + _PATIENCE
    while pipeline.running and pipeline.position < end and time.monotonic() < give_up:
        time.sleep(0.05)


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

    def show(self, totals: Totals, latest: Latest, kept: Kept | None) -> None:
        """Draw."""
        if self._live:
            self._next = time.monotonic() + _REDRAWN_EVERY
            self._live.update(_drawn(totals, latest, kept), refresh=True)
        elif not self._quiet:
            self._next = time.monotonic() + _TOLD_EVERY
            console.print(
                f"{totals.seconds:6.1f} s  {totals.accepted / totals.seconds:9,.0f} updates/s  "
                f"position {totals.position:,}  {totals.quarantined:,} quarantined  {totals.repeats:,} repeats"
                + (f"  Spark at {kept.position:,}, {kept.median:.0f} ms a batch" if kept else "")
            )


def _drawn(totals: Totals, latest: Latest, kept: Kept | None) -> Group:
    rates = table("generator → admission → log", "", "total", "a second", numbers=(1, 2))
    for name, count in (
        ("updates accepted", totals.accepted),
        ("quarantined (spoilt on purpose)", totals.quarantined),
        ("repeats left out (sent twice on purpose)", totals.repeats),
        ("durable appends", totals.appends),
        ("bytes in the log", totals.size),
    ):
        rates.add_row(name, f"{count:,}", f"{count / totals.seconds:,.1f}")
    if kept is not None:
        behind = totals.position - kept.position
        rates.add_row(f"taken in by Spark ({kept.median:.0f} ms a micro-batch)", f"{kept.position:,}", f"−{behind:,}")
    title = Text(f"latest of {len(latest.prices)} symbols, read back from the log", "bold")
    symbols = sorted(latest.prices)[: SHOWN * COLUMNS]
    stacks = [_stack(symbols[first : first + SHOWN], latest) for first in range(0, len(symbols), SHOWN)]
    newest = max((rank[0] for rank in latest.ranks.values()), default=None)
    when = "" if newest is None else f" · newest event {moment(Instant(newest)):%H:%M:%S.%f}"[:-3] + " UTC"
    moving = _moving(latest)
    foot = Text(f"{totals.seconds:.0f} s · log position {totals.position:,}{when} · Ctrl-C ends", "dim")
    return Group(rates, Text(""), title, Columns(stacks, padding=(0, 4)), Text(""), moving, foot)


def _moving(latest: Latest) -> Text:
    """The symbols that move most, by their statistics so far."""
    if latest.statistics is None or not latest.prices:
        return Text("")
    movement = latest.statistics.movement.value()
    most = sorted(range(len(movement.items)), key=lambda place: -movement.sumdiff[place])[:5]
    told = ", ".join(f"{movement.items[place]} (sumdiff {movement.sumdiff[place]:,.1f})" for place in most)
    return Text(f"moving most: {told}")


def _stack(symbols: list[str], latest: Latest) -> Table:
    prices = table("", "symbol", "price", "", numbers=(1,))
    for symbol in symbols:
        price, before = latest.prices[symbol], latest.before[symbol]
        arrow = Text("▲", "green") if price > before else Text("▼", "red") if price < before else Text("·", "dim")
        prices.add_row(symbol, f"{price:,.2f}", arrow)
    return prices


def _summary(totals: Totals, latest: Latest, kept: Kept | None) -> dict[str, Any]:
    summary: dict[str, Any] = {
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
    if latest.statistics is not None:
        movement = latest.statistics.movement.value()
        summary["sumdiff"] = dict(zip(movement.items, movement.sumdiff.tolist(), strict=True))
    if kept is not None:
        summary["spark"] = {
            "position": kept.position,
            "micro_batches": len(kept.milliseconds),
            "median_ms": round(kept.median, 1),
            "latest_rows": kept.latest,
            "history_rows": kept.history,
            "latest_agrees_with_log": kept.agrees,
        }
    return summary
