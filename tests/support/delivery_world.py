"""A world of deliveries: one server state, clients by channel over links that lose, repeat and break, and a reference.

The reference is a client by unicast over a perfect link. What it holds at each position is what every other client
must show as of that position.
"""

from collections import deque
from random import Random
from typing import Any

from slackwater.client.live.events import (
    ChannelHeard,
    ChannelLost,
    ChannelMissed,
    ClockTick,
    Connect,
    JoinChannel,
    LeaveChannel,
    Lost,
    Opened,
    Unwanted,
    Wanted,
)
from slackwater.client.live.events import MessageReceived as Came
from slackwater.client.live.events import SendMessage as Say
from slackwater.client.live.state import ClientState
from slackwater.dissemination.delivery.base import ChannelPlace, CloseChannel, OpenChannel, PublishMessage
from slackwater.log import Registered
from slackwater.sessions.events import (
    Append,
    Applied,
    Close,
    Connected,
    Disconnected,
    Event,
    Principal,
    QueriesResumed,
    QueriesSuspended,
    Received,
    Send,
)
from slackwater.sessions.events import Tick as ServerTick
from slackwater.sessions.limits import ServerLimits
from slackwater.sessions.rules import SessionRules
from slackwater.sessions.state import ServerState
from tests.support.state_bench import Bench

SUM = "SUBSCRIBE SELECT SUM(price) FROM items WITHIN 2"
ROWS = "SUBSCRIBE SELECT id, price FROM items"
RULES = SessionRules(grace=2_000_000)
LIMITS = ServerLimits(held_facts=12, recent_keys=6)
CHANNEL = "channel"


class Violation(AssertionError):
    """A client shows what it must not."""


class Peer:
    """A client, what is under way to and from it, and the channels it has joined."""

    def __init__(self, world: "DeliveryWorld", delivery: str, faults: bool) -> None:
        self.world = world
        self.delivery = delivery
        self.faults = faults
        self.offset = world.random.randrange(10**9)
        self.state = ClientState(world.random.random)
        self.connection: int | None = None
        self.connect_at: int | None = None
        self.up: deque[Any] = deque()
        self.down: deque[Any] = deque()
        self.joining: dict[str, int] = {}
        self.channels: dict[str, deque[Any]] = {}
        self.refs = 0
        self.stalled = 0
        """Until when the session carries nothing, while channels go on."""
        self.deaf = 0
        """Until when channels carry nothing, while the session goes on."""
        self.seen: dict[int, int] = {}
        self.heard_by_channel = 0

    @property
    def now(self) -> int:
        return self.world.bench.now + self.offset

    def want(self, sql: str) -> None:
        self.refs += 1
        self.do(Wanted(self.refs, sql, self.delivery))

    def do(self, event: Any) -> None:
        for instruction in self.state.handle(event, self.now):
            match instruction:
                case Say(message):
                    self.up.append(message)
                case Connect(after, _):
                    self.hang_up()
                    self.connect_at = self.now + after
                case JoinChannel(name, _, after):
                    self.channels.pop(name, None)
                    self.joining[name] = self.now + after
                case LeaveChannel(name):
                    self.channels.pop(name, None)
                    self.joining.pop(name, None)
        self.world.check(self)

    def hang_up(self) -> None:
        connection, self.connection = self.connection, None
        self.up.clear()
        self.down.clear()
        if connection is not None:
            self.world.peers_by_connection.pop(connection, None)
            self.world.tell(Disconnected(connection))

    def carry(self, many: int) -> None:
        """Let time pass for this client, and bring it some of what is under way."""
        if self.connect_at is not None and self.now >= self.connect_at:
            self.connect_at = None
            self.connection = self.world.next_connection()
            self.world.peers_by_connection[self.connection] = self
            self.world.tell(Connected(self.connection, Principal("p")))
            self.do(Opened())
        for name, due in list(self.joining.items()):
            if self.now >= due:
                del self.joining[name]
                if name in self.world.open and not (self.faults and self.world.random.random() < 0.2):
                    self.channels[name] = deque()
                else:
                    self.do(ChannelLost(name, "no server publishes there"))
        for _ in range(many):
            stalled = self.faults and self.world.bench.now < self.stalled
            if self.up and self.connection is not None:
                self.world.tell(Received(self.connection, self.up.popleft()))
            if self.down and not stalled:
                message = self.down.popleft()
                self.do(Lost("closed") if message is None else Came(message))
            if self.faults and self.world.bench.now < self.deaf:
                continue
            for name in list(self.channels):
                if self.channels.get(name):
                    event = self.channels[name].popleft()
                    self.heard_by_channel += isinstance(event, ChannelHeard)
                    if isinstance(event, ChannelLost):
                        del self.channels[name]
                    self.do(event)
        tick_due = self.state.next_tick(self.now)
        if tick_due is not None and tick_due <= self.now:
            self.do(ClockTick())

    def publish(self, name: str, event: ChannelHeard | ChannelLost) -> None:
        """A message of a channel is on its way, unless it is lost there."""
        queue = self.channels.get(name)
        if queue is None:
            return
        chance = self.world.random.random() if self.faults else 1.0
        if isinstance(event, ChannelLost) or chance >= 0.15:
            queue.append(event)
        elif chance < 0.04:
            queue.append(ChannelMissed(name))
        elif chance < 0.08:
            queue += (event, event)


class DeliveryWorld:
    """See the module; every event is followed by a check of the client that it concerned."""

    def __init__(self, seed: int, rules: SessionRules = RULES) -> None:
        self.random = Random(seed)
        self.rules = rules
        self.bench = Bench(LIMITS)
        self.open: set[str] = set()
        self.published = self.steps = 0
        self.connections = 0
        self.generation = 3
        self.peers_by_connection: dict[int, Peer] = {}
        self.reference: dict[int, dict[str, Any]] = {}
        self.stood: deque[tuple[int, int]] = deque()
        """When the server came to which position."""
        self.names = (f"c{number}" for number in range(10**9))
        self.suspended: set[int] = set()
        self.epochs: dict[int, int] = {}
        self._start()
        self.perfect = Peer(self, "unicast", faults=False)
        self.peers: list[Peer] = []
        self.perfect.do(ClockTick())
        for sql in (SUM, ROWS):
            self.perfect.want(sql)
        self.settle_perfect()

    # The server.

    def _start(self) -> None:
        place = ChannelPlace("memory", self.names)
        self.bench.state = ServerState("n", self.generation, self.rules, self.bench.engine, place)
        for event in (*self.bench.engine.registered(), Applied(self.bench.engine.nothing())):
            self._handle(event)

    def restart(self) -> None:
        self.generation += 1
        self.suspended.clear()
        for name in list(self.open):
            self._close(name)
        for peer in [*self.peers, self.perfect]:
            if peer.connection is not None:
                self.peers_by_connection.pop(peer.connection)
                peer.connection = None
                peer.up.clear()
                if peer is not self.perfect:
                    peer.down.append(None)
        self._start()
        self.perfect.do(Lost("restart"))
        self.perfect.connect_at = self.perfect.now
        self.settle_perfect()

    def next_connection(self) -> int:
        self.connections += 1
        return self.connections

    def tell(self, event: Event) -> None:
        self._handle(event)
        if self.bench.asked and self.random.random() < 0.7:
            asked, self.bench.asked = self.bench.asked, []
            self.log(*asked)

    def log(self, *records: Any) -> None:
        entries = self.bench.entries(*records)
        for events in self.bench.engine.events(entries):
            self.steps += 1
            for event in events:
                self._handle(event)

    def _handle(self, event: Event) -> None:
        state = self.bench.state
        assert state is not None
        for instruction in state.handle(event, self.bench.now):
            match instruction:
                case Send(connection, message):
                    if connection in self.peers_by_connection:
                        self.peers_by_connection[connection].down.append(message)
                case Close(connection, _):
                    if connection in self.peers_by_connection:
                        self.peers_by_connection.pop(connection).down.append(None)
                case Append(records):
                    self.bench.asked += records
                case OpenChannel(name):
                    self.open.add(name)
                case PublishMessage(name, message):
                    assert name in self.open
                    self.published += bool(message.facts)
                    for peer in self.peers:
                        peer.publish(name, ChannelHeard(name, message))
                case CloseChannel(name):
                    self._close(name)
        if not self.stood or self.stood[-1][1] != state.position:
            self.stood.append((self.bench.now, state.position))
        if hasattr(self, "perfect") and not state.subscriptions.in_step:
            self.settle_perfect()

    def _close(self, name: str) -> None:
        self.open.remove(name)
        for peer in self.peers:
            peer.publish(name, ChannelLost(name, "closed"))

    # The reference.

    def settle_perfect(self) -> None:
        """Bring the reference everything, and note what it holds."""
        peer, self.perfect_busy = self.perfect, getattr(self, "perfect_busy", False)
        if self.perfect_busy:
            return
        self.perfect_busy = True
        while peer.up or peer.down or (peer.connect_at is not None and peer.now >= peer.connect_at):
            peer.carry(1)
        self.perfect_busy = False
        state = self.bench.state
        assert state is not None
        if state.subscriptions.in_step or peer.connection is None:
            return
        held = {one.sql: one for one in peer.state.held.values() if one.live and one.suspended is None}
        noted = self.reference.setdefault(state.position, {})
        for sql, one in held.items():
            noted[sql] = one.value if one.rows is None else dict(one.rows)

    def check(self, peer: Peer) -> None:
        """Everything shown is what unicast shows as of the same position; certain is no older than a lease."""
        if peer is getattr(self, "perfect", peer):
            return
        for ref, held in peer.state.held.items():
            shown = peer.state.shown(ref, peer.now)
            if shown.as_of is None:
                continue
            if shown.as_of < peer.seen.get(ref, 0):
                raise Violation(f"{held.sql} goes back from {peer.seen[ref]} to {shown.as_of}")
            peer.seen[ref] = shown.as_of
            noted = self.reference.get(shown.as_of, {})
            if held.sql in noted:
                found = shown.value if shown.rows is None else dict(shown.rows)
                if found != noted[held.sql]:
                    raise Violation(f"{held.sql} as of {shown.as_of}: {found}, by unicast {noted[held.sql]}")
            elif shown.certain:
                raise Violation(f"{held.sql} is certain as of {shown.as_of}, when no client could know it")
            if shown.certain and shown.as_of < self.stood_at(self.bench.now - self.rules.lease):
                raise Violation(f"{held.sql} is certain and older than a lease")

    def stood_at(self, moment: int) -> int:
        position = 0
        for when, where in self.stood:
            if when <= moment:
                position = where
        return position

    # What happens.

    def join(self, faults: bool = True) -> Peer:
        peer = Peer(self, CHANNEL, faults)
        self.peers.append(peer)
        peer.do(ClockTick())
        for sql in (SUM, ROWS):
            peer.want(sql)
        return peer

    def change(self) -> None:
        prices = [
            (self.random.randrange(8), None if self.random.random() < 0.2 else round(self.random.gauss(0, 3), 1))
            for _ in range(self.random.randrange(1, 4))
        ]
        self.log(self.bench.updates(*dict(prices).items()))

    def wait(self, microseconds: int, many: int = 2) -> None:
        self.bench.now += microseconds
        state = self.bench.state
        assert state is not None
        due = state.next_tick()
        if due is not None and due <= self.bench.now:
            self.tell(ServerTick())
        self.perfect.carry(0)
        for peer in self.peers:
            peer.carry(self.random.randrange(many + 1) if peer.faults else many)

    def act(self) -> None:
        """One thing that may happen."""
        random, numbers = self.random, list(self.bench.engine.registrations)
        chance = random.random()
        peer = random.choice(self.peers) if self.peers else None
        if chance < 0.45:
            self.change()
        elif chance < 0.47 and len(self.peers) < 5:
            self.join()
        elif chance < 0.49 and peer is not None:
            peer.do(Lost("cut"))
        elif chance < 0.51 and peer is not None:
            for name in list(peer.channels):
                del peer.channels[name]
                peer.do(ChannelLost(name, "cut"))
        elif chance < 0.52 and peer is not None and peer.state.held:
            peer.do(Unwanted(random.choice(list(peer.state.held))))
            peer.want(random.choice((SUM, ROWS)))
        elif chance < 0.54 and peer is not None and len(peer.state.held) < 5:
            peer.want(random.choice((SUM, ROWS)))
        elif chance < 0.57 and peer is not None:
            peer.stalled = self.bench.now + random.randrange(2_000_000)
        elif chance < 0.58 and peer is not None:
            peer.deaf = self.bench.now + random.randrange(9_000_000)
        elif chance < 0.59:
            self.restart()
        elif chance < 0.61 and numbers:
            number = random.choice(numbers)
            self.suspended ^= {number}
            again = number not in self.suspended
            self.tell(QueriesResumed((number,)) if again else QueriesSuspended((number,), "lost"))
        elif chance < 0.63 and numbers:
            one = self.bench.engine.registrations[random.choice(numbers)]
            self.log(Registered("items", one.text, one.owner, one.name, one.number, one.epoch + 1))
        self.wait(random.randrange(300_000))

    def calm(self) -> None:
        """No more faults, and time for everything to be made good."""
        for number in sorted(self.suspended):
            self.tell(QueriesResumed((number,)))
        self.suspended.clear()
        for peer in self.peers:
            peer.faults = False
        for _ in range(120):
            self.wait(250_000, many=50)
