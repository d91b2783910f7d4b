"""A deployment that is restored again and again: a server, a follower, an aggregator, a Spark host and live clients.

Each restore kills the server, puts a copy of its folder (of the same server or of another one) in its place, or the
segments of its log alone, and starts it again on the same port. Nothing else is restarted by hand, save a Spark host
that ended, as `slackwater up` would do. What is certain must be true in the history it names at every look, and in the
end everybody is live by itself.
"""

import asyncio
import random
import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import slackwater
from slackwater.client.live.subscription import Subscription
from tests.support.aggregators import aggregator
from tests.support.restores import BOUND, KEYS, ROWS, TOTAL, Backup, Copy, Restored
from tests.support.server_process import ServerProcess
from tests.support.spark_processes import HostProcess

LEASE = 1.0
ON_SPARK = "SUBSCRIBE by_spark AS SELECT SUM(v) FROM t WITHIN 5"
RELAYED = "SUBSCRIBE SELECT SUM(v) FROM t WHERE k IN ({}) WITHIN 5".format(", ".join(f"'k{n}'" for n in range(KEYS)))
MOST_BACKUPS = 4
LIVE_SECONDS = 90.0

AGGREGATOR = """
lease = 1.0
[[upstreams]]
name = "server"
nodes = ["{url}"]
[[upstreams.items]]
table = "t"
value = "v"
within = 0.2
keys = {keys}
"""


@dataclass
class Audience:
    """The subscriptions of all clients, by what serves them."""

    pairs: list[tuple[Subscription, Subscription]] = field(default_factory=list)
    """Rows and total over the server's log."""
    totals: list[Subscription] = field(default_factory=list)
    """Totals over the server's log by Spark."""
    relayed: list[Subscription] = field(default_factory=list)
    """Totals over the aggregator's log, which has a history of its own."""


class Deployment:
    """Everything that runs, and the random choices."""

    def __init__(self, place: Path, seed: int, *, clients: int = 20, spark: bool = True) -> None:
        self.rng = random.Random(seed)
        more = (
            ("--spark", str(place / "spark"), "--keep-on", "node", "--keep-on", "query:by_spark=spark") if spark else ()
        )
        self.served = Restored(place, self.rng, LEASE, *more)
        self.follower = ServerProcess(place / "follower", "--lease", str(LEASE), "--follow", str(self.served.log))
        self.aggregator = ServerProcess(place / "aggregator")
        self.host = HostProcess(self.served.log, place / "spark", "local[1]") if spark else None
        self.place = place
        self.clients = clients
        self.audience = Audience()
        self.restores = self.checks = 0

    async def run(self, restores: int, seconds: float | None = None) -> None:
        """So many restores, or as many as fit into the time."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        with self._ending():
            other = await self._another_server()
            await self.served.start()
            await self.served.define()
            await self.served.send(25)
            self.served.backups.append(other)
            await asyncio.to_thread(self.follower.start)
            keys = [f"k{n}" for n in range(KEYS)]
            self.aggregator = aggregator(
                self.place / "aggregator", AGGREGATOR.format(url=self.served.server.url, keys=keys)
            )
            await asyncio.to_thread(self.aggregator.start)
            if self.host is not None:
                self.host.start()
            async with AsyncExitStack() as stack:
                await self._subscribe(stack)
                await self._all_live()
                while self.restores < restores and (seconds is None or loop.time() - began < seconds):
                    await self._restore()
                    await self._all_live()
            self.checks += self.served.checks

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self.host is not None:
                self.host.stop()
            for one in (self.aggregator, self.follower, self.served.server):
                one.stop()

    async def _another_server(self) -> Backup:
        """A copy of the folder of a server that has nothing to do with this one."""
        another = Restored(self.place / "another", self.rng, LEASE)
        (self.place / "another").mkdir()
        try:
            await another.start()
            await another.define()
            another.sent = 1_000_000
            await another.send(10)
        finally:
            await asyncio.to_thread(another.server.stop)
        return another.copied()

    async def _subscribe(self, stack: AsyncExitStack) -> None:
        for nth in range(self.clients):
            kind = nth % 5
            url = (self.follower if kind == 1 else self.aggregator if kind == 2 else self.served.server).url
            client = await stack.enter_async_context(slackwater.connect(url))
            if kind == 2:
                self.audience.relayed.append(client.subscribe(RELAYED))
            elif kind == 3 and self.host is not None:
                self.audience.totals.append(client.subscribe(ON_SPARK))
            else:
                self.audience.pairs.append((client.subscribe(ROWS), client.subscribe(TOTAL)))

    async def _restore(self) -> None:
        served, rng = self.served, self.rng
        await served.send(rng.randrange(1, 15))
        self.look()
        if rng.random() < 0.7:
            # The end of a history that may be lost: clients have come to different places of it.
            await asyncio.sleep(rng.uniform(0, 0.5))
        await asyncio.to_thread(served.server.kill)
        if rng.random() < 0.5:
            served.copied()
            for old in served.backups[1:-MOST_BACKUPS]:
                shutil.rmtree(old.folder)
                served.backups.remove(old)
        what = rng.choice([Copy.FOLDER, Copy.FOLDER, Copy.SEGMENTS])
        await served.restore(rng.choice(served.backups), what)
        self.restores += 1
        await served.send(rng.randrange(1, 15))

    # What is shown.

    def look(self) -> None:
        """Compare everything that is shown as certain with the truth."""
        for nth, (rows, total) in enumerate(self.audience.pairs):
            self.served.check(rows, total, f"client {nth}")
        for nth, total in enumerate(self.audience.totals):
            self.served.check(total, total, f"client {nth} of Spark")
        for nth, total in enumerate(self.audience.relayed):
            self._check_relayed(total, f"client {nth} of the aggregator")

    def _check_relayed(self, total: Subscription, where: str) -> None:
        """What an aggregator relays as certain was true at some position of some history of its upstream."""
        shown = total.shown
        if not shown.certain:
            return
        self.checks += 1
        value = shown.value or 0.0
        near = (abs(value - truth) for truth in self._truths())
        assert min(near) <= BOUND + 1e-6, f"{where}: {value} was never true"

    def _truths(self) -> Iterator[float]:
        """The true totals at all positions of all histories."""
        seen: set[int] = set()
        for history in self.served.histories.values():
            if id(history) in seen:
                continue
            seen.add(id(history))
            latest: dict[str, float] = {}
            yield 0.0
            for _, key, value in history.rows:
                latest[key] = value
                yield sum(latest.values())

    async def _all_live(self) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + LIVE_SECONDS
        while (late := self._not_live()) is not None:
            self.look()
            assert loop.time() < give_up, f"after {self.restores} restores, not live again: {late}"
            if self.host is not None and self.host.ended:
                self.host.start()
            await asyncio.sleep(0.05)
        self.look()

    def _not_live(self) -> str | None:
        served = self.served
        last = served.history.rows[-1][0]
        truth = sum(served.history.latest(last).values())
        own = [*(one for pair in self.audience.pairs for one in pair), *self.audience.totals]
        for one in own:
            if not served.live([one]):
                return f"{one} as of {one.as_of} ({one.shown.incarnation}): {one.why}"
        for one in self.audience.relayed:
            if not one.certain or abs((one.value or 0.0) - truth) > BOUND + 1e-6:
                return f"{one} of the aggregator shows {one.value}, the truth is {truth}: {one.why}"
        return None
