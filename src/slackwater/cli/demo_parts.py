"""Demo topology: a server, Spark, two aggregators, and the server of each client."""

from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slackwater.cli.demo_audience import Portfolio

CLIENTS = 10
AGGREGATORS = ("west", "east")


@dataclass(frozen=True, slots=True)
class DemoClient:
    """One client: its name, the process it is connected to, and the keeper of its query."""

    name: str
    process: str
    kept_by: str

    def sql(self, portfolio: "Portfolio") -> str:
        """Its standing query, under its name."""
        return portfolio.sql.replace("SUBSCRIBE SELECT", f"SUBSCRIBE {self.name} AS SELECT", 1)


def demo_clients(spark: bool) -> list[DemoClient]:
    """Three clients of the node, three of Spark where there is one, two of each aggregator."""
    made = [DemoClient(f"desk{n}", "server", "node") for n in range(1, 4)]
    made += [DemoClient(f"desk{n}", "server", "Spark" if spark else "node") for n in range(4, 7)]
    made += [DemoClient(f"desk{n}", AGGREGATORS[n % 2], AGGREGATORS[n % 2]) for n in range(7, CLIENTS + 1)]
    return made


def deployment(served: list[DemoClient], portfolios: "list[Portfolio]", *, spark: bool) -> str:
    """The file for `slackwater up`."""
    lines = ["[server]", "port = 0", ""]
    if spark:
        rules = ", ".join(f'{seat.name} = "node"' for seat in served if seat.kept_by == "node")
        lines += ["[pipeline]", "", "[spark]", f"queries = {{{rules}}}", ""]
    for name in AGGREGATORS:
        own = [held for seat, held in zip(served, portfolios, strict=True) if seat.process == name]
        lines += [f"[aggregators.{name}]", "port = 0", f"[[aggregators.{name}.upstreams]]"]
        lines += ['name = "server"', 'nodes = ["server"]']
        for symbol, within in sorted(bounds(own).items()):
            lines += [f"[[aggregators.{name}.upstreams.items]]", 'table = "quotes"', 'value = "price"']
            lines += [f'keys = ["{symbol}"]', f"within = {within!r}"]
        lines.append("")
    return "\n".join(lines)


def bounds(portfolios: "list[Portfolio]") -> dict[str, float]:
    """Within what each share has to be held: all of a portfolio's together take half of its bound."""
    found: dict[str, float] = {}
    for portfolio in portfolios:
        within = portfolio.within / 2 / sum(portfolio.shares)
        for symbol in portfolio.symbols:
            found[symbol] = min(within, found.get(symbol, within))
    return found


@dataclass(slots=True)
class Written:
    """The log of an aggregator as it grows: which position of the server stands behind one of its own."""

    folder: Path
    _read: int = 0
    _since: list[int] = field(default_factory=list)
    _upstream: list[int] = field(default_factory=list)

    def position(self, here: int | None) -> int | None:
        """The position of the server that a value as of a position here stands for."""
        self._follow()
        place = -1 if here is None else bisect_right(self._since, here) - 1
        return self._upstream[place] if place >= 0 else None

    def _follow(self) -> None:
        from slackwater.aggregator.upstream.state import ROOM
        from slackwater.core.arrow import SEQUENCE
        from slackwater.core.types import Position
        from slackwater.log import LocalLog, Updates

        with LocalLog(self.folder / "log", read_only=True) as log:
            end = log.end
            for entry in log.read(Position(self._read), end):
                if isinstance(entry.record, Updates):
                    self._since.append(entry.end)
                    self._upstream.append(int(entry.record.batch.column(SEQUENCE)[-1].as_py()) // ROOM)
            self._read = end
