"""Demo display: a live table on a terminal, a line now and then elsewhere, JSON at the end."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.text import Text

from slackwater.cli.output import console, table

if TYPE_CHECKING:
    from slackwater.cli.demo_audience import Audience, Portfolio
    from slackwater.cli.demo_parts import DemoClient
    from slackwater.deployment.feed import Fed

_REDRAWN_EVERY = 0.25
_TOLD_EVERY = 5.0


@dataclass(slots=True)
class DemoState:
    """Everything that is known of the demonstration so far."""

    portfolios: "list[Portfolio]"
    audience: "Audience"
    spark: bool
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    fed: "Fed | None" = None
    messages: list[int] = field(default_factory=list)
    """Messages sent to each client so far."""
    to_aggregators: int = 0
    """Messages sent by the server to the aggregators."""
    served: "list[DemoClient]" = field(default_factory=list)
    movement: dict[str, float] = field(default_factory=dict)
    kept: int = 0
    latest: int | None = None
    history: int | None = None
    agrees: bool | None = None

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return max((self.ended or time.monotonic()) - self.started, 1e-9)

    @property
    def sent(self) -> int:
        """Messages that brought a client another value."""
        return sum(self.messages)

    def compare(self, folder: Path, prices: dict[str, float]) -> None:
        """Read the tables that Spark keeps and compare them with the sent rows."""
        from slackwater.pipeline.tables.snapshot import read_history, read_latest

        rows = read_latest(folder, "quotes")
        kept = dict(zip(rows.column("symbol").to_pylist(), rows.column("price").to_pylist(), strict=True))
        self.latest, self.agrees = len(kept), kept == prices
        self.history = read_history(folder, "quotes").count_rows()

    def told(self) -> Iterator[str]:
        """The end of it in sentences."""
        assert self.fed is not None
        rivals = self.audience.rivals
        yield (
            f"{self.fed.accepted:,} updates in {self.seconds:.0f} s, {self.fed.quarantined:,} rows quarantined, "
            f"{self.fed.repeats:,} repeats left out"
        )
        yield (
            f"[bold]{self.sent:,} messages[/] kept {len(self.portfolios)} clients within their bounds; a deadband on "
            f"each item would have sent {rivals.deadband:,}, pushing everything {rivals.everything:,}"
        )
        yield f"{self.to_aggregators:,} messages more brought the items of four of them to two aggregators"
        yield f"worst error ÷ bound of any value shown as certain: {self.audience.worst:.3f}"
        if self.spark:
            agrees = "agrees with what was sent" if self.agrees else "[bold red]does not agree with what was sent[/]"
            yield (
                f"Spark kept {self.latest:,} latest rows and {self.history:,} rows of history up to position "
                f"{self.kept:,}; latest {agrees}"
            )

    def summary(self) -> dict[str, Any]:
        """The end of it for programs."""
        assert self.fed is not None
        rivals = self.audience.rivals
        looks = sum(seen.looks for seen in self.audience.seen)
        summary: dict[str, Any] = {
            "seconds": round(self.seconds, 2),
            "accepted": self.fed.accepted,
            "quarantined": self.fed.quarantined,
            "repeats": self.fed.repeats,
            "position": self.fed.position,
            "updates_per_second": round(self.fed.accepted / self.seconds, 1),
            "messages": self.sent,
            "messages_to_aggregators": self.to_aggregators,
            "messages_of_a_deadband_on_each_item": rivals.deadband,
            "messages_of_pushing_everything": rivals.everything,
            "worst_error_over_bound": self.audience.worst,
            "share_of_looks_certain": sum(seen.certain for seen in self.audience.seen) / max(looks, 1),
            "clients": [
                {
                    "kept_by": seat.kept_by,
                    "within": portfolio.within,
                    "value": seen.value,
                    "truth": seen.truth,
                    "messages": messages,
                    "worst_error_over_bound": seen.worst,
                }
                for seat, portfolio, seen, messages in zip(
                    self.served, self.portfolios, self.audience.seen, self.messages, strict=True
                )
            ],
            "sumdiff": self.movement,
        }
        if self.spark:
            summary["spark"] = {
                "position": self.kept,
                "latest_rows": self.latest,
                "history_rows": self.history,
                "latest_agrees": self.agrees,
            }
        return summary


class Screen:
    """A live table on a terminal, a line now and then elsewhere, nothing when quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal and not quiet else None
        self._quiet = quiet
        self._next = 0.0

    def __enter__(self) -> "Screen":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, what: str) -> None:
        """The condition that is being waited for."""
        if self._live:
            self._live.update(Text(f"{what} …", "dim"), refresh=True)
        elif not self._quiet:
            console.print(f"{what} …")

    def due(self) -> bool:
        """Whether it is time to draw again."""
        return time.monotonic() >= self._next

    def show(self, shown: DemoState) -> None:
        """Draw."""
        self._next = time.monotonic() + (_REDRAWN_EVERY if self._live else _TOLD_EVERY)
        if shown.fed is None:
            return
        if self._live:
            self._live.update(_drawn(shown), refresh=True)
        elif not self._quiet:
            rivals = shown.audience.rivals
            console.print(
                f"{shown.seconds:6.1f} s  {shown.fed.accepted:,} updates  {shown.sent:,} messages "
                f"(deadband {rivals.deadband:,}, everything {rivals.everything:,})  "
                f"worst error ÷ bound {shown.audience.worst:.3f}"
                + (f"  Spark at {shown.kept:,} of {shown.fed.position:,}" if shown.spark else "")
            )


def _drawn(shown: DemoState) -> Group:
    assert shown.fed is not None
    rivals, seconds = shown.audience.rivals, shown.seconds
    rates = table("ten clients, each within its bound", "", "total", "a second", numbers=(1, 2))
    for name, count in (
        ("updates accepted", shown.fed.accepted),
        ("  quarantined (spoilt on purpose)", shown.fed.quarantined),
        ("  repeats left out (sent twice on purpose)", shown.fed.repeats),
        ("messages to clients", shown.sent),
        ("  a deadband on each item would have sent", rivals.deadband),
        ("  pushing everything would have sent", rivals.everything),
        ("messages to the aggregators", shown.to_aggregators),
    ):
        rates.add_row(name, f"{count:,}", f"{count / seconds:,.1f}")
    rates.add_row("worst error ÷ bound", f"{shown.audience.worst:.3f}", "")
    if shown.spark:
        rates.add_row("taken in by Spark", f"{shown.kept:,}", f"−{max(shown.fed.position - shown.kept, 0):,}")
    titles = ("client", "kept by", "worth", "within ±", "truth", "error ÷ bound", "messages")
    clients = table("", *titles, numbers=(2, 3, 4, 5, 6))
    rows = zip(shown.served, shown.portfolios, shown.audience.seen, shown.messages, strict=True)
    for seat, portfolio, seen, messages in rows:
        if seen.value is None or seen.truth is None:
            continue
        share = abs(seen.value - seen.truth) / portfolio.within
        clients.add_row(
            seat.name,
            seat.kept_by,
            f"{seen.value:,.0f}",
            f"{portfolio.within:,.0f}",
            f"{seen.truth:,.0f}",
            Text(f"{share:.2f}", "green" if share <= 1 else "bold red"),
            f"{messages:,}",
        )
    most = sorted(shown.movement.items(), key=lambda one: -one[1])[:5]
    moving = ", ".join(f"{symbol} (sumdiff {moved:,.1f})" for symbol, moved in most)
    foot = Text(f"{seconds:.0f} s · log position {shown.fed.position:,} · Ctrl-C ends", "dim")
    return Group(rates, Text(""), clients, Text(""), Text(f"moving most: {moving}"), foot)
