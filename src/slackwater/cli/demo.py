"""`slackwater demo`: a made-up market, a server, Spark, two aggregators and ten clients, watched live.

    generator ─▶ server: admission, log ─┬▶ operators in the node ──────────▶ three clients
                                         ├▶ operators on Spark ──▶ server ──▶ three clients
                                         ├▶ items ──▶ two aggregators ──────▶ two clients each
                                         └▶ Spark: latest, history

All of it are real processes under `slackwater up`. Each client holds a portfolio and wants to know its worth within a
bound. The table shows what was sent to them, what others would have sent, and how far from the truth anybody was. To
show what admission does, a few rows are spoilt on purpose and a few batches sent twice.
"""

import asyncio
import importlib.util
import json
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.demo_parts import AGGREGATORS, CLIENTS, DemoClient, Written, demo_clients, deployment
from slackwater.cli.demo_screen import DemoState, Screen
from slackwater.cli.output import AsJson, console, need_node, need_spark, plain, print_json
from slackwater.core.errors import SlackwaterError
from slackwater.core.types import Position
from slackwater.deployment.lifeline import Lifeline
from slackwater.wallclock import WallClock

if TYPE_CHECKING:
    from slackwater.cli.demo_audience import Audience, Portfolio
    from slackwater.client import Client, Subscription
    from slackwater.core.arrival import Arrival
    from slackwater.deployment.feed import Feed
    from slackwater.sources import Market

HOLDINGS = 10
SPOILT_EVERY = 1_000
REPEATED_EVERY = 20
_LOOK_EVERY = 0.05
_PATIENCE = 60.0
_DEPLOYMENT = "slackwater.toml"


@dataclass(slots=True)
class _Market:
    """The sender: rows over a rough line to the server, and the truth after each of them."""

    feed: "Feed"
    arrivals: "Iterator[Arrival]"
    prices: dict[str, float] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)

    def send_one(self) -> tuple[dict[str, float], int] | None:
        """Send one batch; the prices that hold now, and from which position on."""
        arrival = next(self.arrivals, None)
        if arrival is None:
            return None
        refused = self.feed.fed.quarantined
        self.feed.send([arrival])
        fed = self.feed.fed
        symbols = arrival.batch.column("symbol").to_pylist()
        prices = arrival.batch.column("price").to_pylist()
        moved = {symbol: price for symbol, price in zip(symbols, prices, strict=True) if price == price}
        self.prices |= moved
        # Rows that were refused stand behind those that were accepted.
        return moved, fed.position - (fed.quarantined - refused)

    def send_all(self, loop: asyncio.AbstractEventLoop, audience: "Audience") -> None:
        """Send until there is no more, or until told to stop."""
        while not self.stopping.is_set() and (sent := self.send_one()) is not None:
            loop.call_soon_threadsafe(audience.sent, *sent)


def demo(
    seconds: Annotated[float | None, typer.Option("--for", min=0, help="End after so many seconds.")] = None,
    items: Annotated[int, typer.Option("--items", min=2, max=10_000, help="How many shares.")] = 100,
    rate: Annotated[float, typer.Option("--rate", min=1, max=1e5, help="Updates a second.")] = 5_000,
    within: Annotated[
        float, typer.Option("--within", min=1e-6, max=100, help="The bound, in percent of a portfolio's worth.")
    ] = 0.25,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another seed, another market.")] = 1,
    spark: Annotated[bool | None, typer.Option("--spark/--no-spark", help="[default: where it is installed]")] = None,
    folder: Annotated[
        Path | None, typer.Option("--data", help="Keep log and tables in this folder [default: a temporary one].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Watch ten clients follow a made-up market within their bounds. Ctrl-C, or --for SECONDS, ends it."""
    need_node()
    if spark is None:
        spark = importlib.util.find_spec("pyspark") is not None
    elif spark:
        need_spark()
    with tempfile.TemporaryDirectory(prefix="slackwater-demo-") as temporary:
        path = (folder or Path(temporary)).absolute()
        path.mkdir(parents=True, exist_ok=True)
        run = _Run(path, seconds, items, rate, within / 100, seed, spark)
        with Screen(quiet=as_json) as screen:
            asyncio.run(run.watch(screen))
    if as_json:
        print_json(run.shown.summary())
        return
    for line in run.shown.told():
        console.print(line)
    if folder:
        console.print(f"log and tables are in {plain(folder)}")


@dataclass(slots=True)
class _Run:
    """One demonstration."""

    path: Path
    seconds: float | None
    items: int
    rate: float
    within: float
    seed: int
    spark: bool
    shown: DemoState = field(init=False)

    async def watch(self, screen: Screen) -> None:
        """Start everything, watch, stop everything."""
        from slackwater.cli.demo_audience import Audience, portfolios

        source = self._source()
        held = portfolios(_first_prices(source), CLIENTS, HOLDINGS, self.within, self.seed)
        served = demo_clients(self.spark)
        (self.path / _DEPLOYMENT).write_text(deployment(served, held, spark=self.spark))
        async with AsyncExitStack() as stack:
            screen.say("starting the server" + (", Spark" if self.spark else "") + " and two aggregators")
            urls = await stack.enter_async_context(_deployment(self.path))
            market = self._market(source, urls["server"])
            stack.callback(market.feed.close)
            if self.spark:
                screen.say("waiting for Spark")
                await self._kept(1)
            screen.say("waiting for the aggregators to hold their items")
            for name in AGGREGATORS:
                await _relied_on(urls[name])
            began = time.monotonic()
            first = await asyncio.to_thread(market.send_one)
            assert first is not None, "a market has a first tick"
            audience = Audience(held, dict(market.prices), first[1])
            clients, subscriptions = await _subscribed(stack, urls, served, held)
            self.shown = DemoState(held, audience, self.spark, began, served=served)
            written = {name: Written(self.path / name) for name in AGGREGATORS}
            await self._run(market, _DemoView(served, clients, subscriptions, written), screen)

    def _source(self) -> "Market":
        from slackwater.sources import Market

        clock = WallClock()
        # Event time starts now, so every run is a source of its own and nothing is a repeat of the run before.
        return Market(
            items=self.items,
            seed=self.seed,
            start=clock.now(),
            tick=round(self.items / self.rate * 1_000_000),
            table="quotes",
        )

    def _market(self, source: "Market", url: str) -> _Market:
        from slackwater.deployment.feed import Feed
        from slackwater.sources import Pace, Replay

        feed = Feed(lambda: url)
        feed.define(source.schema)
        pace = Replay(source, WallClock(), Pace(speed=1.0), seconds=self.seconds)
        return _Market(feed, _rough(pace.arrivals()))

    async def _run(self, market: _Market, watched: "_DemoView", screen: Screen) -> None:
        shown = self.shown
        sending = asyncio.create_task(asyncio.to_thread(market.send_all, asyncio.get_running_loop(), shown.audience))
        statistics = _Following(self.path / "server" / "log")
        try:
            while not sending.done():
                watched.look(shown.audience)
                if screen.due():
                    shown.fed = market.feed.fed
                    await watched.count(shown)
                    shown.movement = await asyncio.to_thread(statistics.follow)
                    shown.kept = await self._kept(0)
                    screen.show(shown)
                await asyncio.sleep(_LOOK_EVERY)
        except asyncio.CancelledError:
            # Ctrl-C: the results so far are reported as at any other end.
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
        finally:
            market.stopping.set()
        await sending
        shown.ended = time.monotonic()
        shown.fed = market.feed.fed
        # Nothing moved since, up to the end of the log: rows that were refused may stand there.
        shown.audience.sent({}, shown.fed.position)
        await watched.reached(shown.fed.position)
        watched.look(shown.audience)
        await watched.count(shown)
        shown.movement = await asyncio.to_thread(statistics.follow)
        if self.spark:
            shown.kept = await self._kept(shown.fed.position)
            await asyncio.to_thread(shown.compare, self.path / "kept", market.prices)
        screen.show(shown)

    async def _kept(self, position: int) -> int:
        """How far Spark is; waits until it has come to a position."""
        from slackwater.pipeline.tables.manifest import read_state

        give_up = time.monotonic() + _PATIENCE
        while self.spark:
            state = read_state(self.path / "kept")
            if state is not None and state.position >= position:
                return int(state.position)
            if time.monotonic() > give_up:
                return 0 if state is None else int(state.position)
            if position == 0:
                break
            await asyncio.sleep(0.1)
        return 0


class _Following:
    """Statistics of the prices, from the log as it grows."""

    def __init__(self, log: Path) -> None:
        from slackwater.log import LocalLog
        from slackwater.statistics import Statistics

        self._log = LocalLog(log, read_only=True)
        self._position = Position(self._log.start)
        self._statistics: Statistics = Statistics("quotes", "price")

    def follow(self) -> dict[str, float]:
        """Read on; how much each symbol has moved so far."""
        from slackwater.core.arrow import EVENT_TIME
        from slackwater.log import Updates
        from slackwater.statistics import Ticks

        end = self._log.end
        for entry in self._log.read(self._position, end):
            if isinstance(entry.record, Updates):
                self._statistics.update(Ticks.from_arrow(entry.record.batch, "symbol", EVENT_TIME, "price"))
        self._position = end
        movement = self._statistics.movement.value()
        return dict(zip(movement.items, movement.sumdiff.tolist(), strict=True))


@asynccontextmanager
async def _deployment(path: Path) -> AsyncIterator[dict[str, str]]:
    """`slackwater up` as a process of its own; gives the addresses of the server and the aggregators."""
    lifeline = Lifeline()
    up = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slackwater", "up", str(path / _DEPLOYMENT), "--json"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # Ctrl-C is for us: it is stopped when we are done with it.
        start_new_session=True,
        pass_fds=(lifeline.descriptor,),
        env=lifeline.environment,
    )
    lifeline.handed_over()
    said: list[str] = []
    assert up.stderr is not None
    assert up.stdout is not None
    complaints = asyncio.create_task(_collected(up.stderr, said))
    events = complaints
    urls: dict[str, str] = {}
    try:
        async for line in up.stdout:
            event = json.loads(line)
            if event["event"] == "listening":
                urls[event["process"]] = event["url"]
            if len(urls) > len(AGGREGATORS):
                break
        else:
            raise SlackwaterError("the server did not start: " + " · ".join(said[-5:]))
        events = asyncio.create_task(_collected(up.stdout, []))
        yield urls
    finally:
        # Once: a second time could reap the process behind the event loop's back.
        up.terminate()
        await up.wait()
        await asyncio.gather(complaints, events)
        lifeline.close()


async def _collected(stream: asyncio.StreamReader, lines: list[str]) -> None:
    async for line in stream:
        lines.append(line.decode(errors="replace").rstrip())
        del lines[:-100]


async def _subscribed(
    stack: AsyncExitStack, urls: dict[str, str], served: list[DemoClient], portfolios: "list[Portfolio]"
) -> "tuple[list[Client], list[Subscription]]":
    """A client for each portfolio, each with a connection of its own."""
    from slackwater.client import connect

    clients, subscriptions = [], []
    for seat, portfolio in zip(served, portfolios, strict=True):
        client = await stack.enter_async_context(connect(urls[seat.process], wait=_PATIENCE))
        clients.append(client)
        subscriptions.append(client.subscribe(seat.sql(portfolio)))
    for subscription in subscriptions:
        await subscription.wait_until(lambda shown: shown.certain and shown.value is not None, _PATIENCE)
    return clients, subscriptions


async def _relied_on(url: str) -> None:
    """Wait until an aggregator has heard of all items that it holds, also that there is no row of them yet."""
    import httpx

    give_up = time.monotonic() + _PATIENCE
    async with httpx.AsyncClient() as web:
        while time.monotonic() < give_up:
            found = (await web.get(f"{url}/v1/upstreams")).json()["upstreams"]
            if all(one["state"] == "certain" for one in found):
                return
            await asyncio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class _DemoView:
    """The clients, and the servers behind them."""

    served: list[DemoClient]
    clients: "list[Client]"
    subscriptions: "list[Subscription]"
    written: dict[str, Written]

    def look(self, audience: "Audience") -> None:
        """Compare each client's shown value with the truth at its position."""
        for client, (seat, subscription) in enumerate(zip(self.served, self.subscriptions, strict=True)):
            shown = subscription.shown
            as_of = shown.as_of if seat.process == "server" else self.written[seat.process].position(shown.as_of)
            audience.shown(client, shown.value, as_of, certain=shown.certain)
        audience.judge()

    async def count(self, shown: DemoState) -> None:
        """Messages sent to each of them so far, and to the aggregators."""
        said: dict[str, dict[str | None, int]] = {}
        for seat, client in zip(self.served, self.clients, strict=True):
            if seat.process not in said:
                standing = await client.subscriptions()
                said[seat.process] = {one.name: one.notifications for one in standing}
                if seat.process == "server":
                    shown.to_aggregators = sum(one.notifications for one in standing if one.name is None)
        shown.messages = [said[seat.process].get(seat.name, 0) for seat in self.served]

    async def reached(self, position: int) -> None:
        """Wait until what the server's own clients are shown is as of a position."""
        for seat, subscription in zip(self.served, self.subscriptions, strict=True):
            if seat.process == "server":
                await subscription.reached(position, _PATIENCE)


def _first_prices(source: "Market") -> dict[str, float]:
    batch = next(iter(source.arrivals())).batch
    return dict(zip(batch.column("symbol").to_pylist(), batch.column("price").to_pylist(), strict=True))


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
        rough = replace(arrival, batch=batch.set_column(place, "price", prices))
        yield rough
        if ordinal % REPEATED_EVERY == REPEATED_EVERY - 1:
            yield rough
