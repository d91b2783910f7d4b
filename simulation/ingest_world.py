"""World of ingest streams: clients that stream rows, connections that break anywhere, a server whose writes fail.

Both ends are the real states: `client.ingest.state` and `sessions.ingest_streams`. Between them are connections as
transports promise them: in order and whole until they break, with what is on its way lost in either direction, or in
the direction to the client only. A connection that the client has given up may live on at the server for a while, so
the same rows arrive twice. The log takes a change in one step or dies with it; a change that is on its way to the disk
when the server dies is kept or lost. Writes fail for a while, and the room of the server runs out.

>>> report = run(1)
>>> report.violation is None, report.changes > 200
(True, True)
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random

from simulation.clock import Schedule
from simulation.invariants import Violation
from simulation.run import Note, Report, play
from slackwater.client.ingest.state import Batch, IngestState
from slackwater.core.errors import ProtocolError
from slackwater.core.types import Position
from slackwater.dissemination.encoding import decode_from_client, encode
from slackwater.dissemination.messages import ColumnRows, Ingest, Ingested, IngestRefused, IngestWindow, WireScalar
from slackwater.intake import IntakeReceipt
from slackwater.sessions.ingest_streams import IngestStreams, StreamRefusal, Taking

SECOND = 1_000_000
LASTS = 40 * SECOND
HEALS = 25 * SECOND
"""From here on nothing breaks: by the end everything must be acknowledged."""
WINDOW = IngestWindow(rows=40, bytes=6_000, streams=2, message=1_000)
CLIENTS, STREAMS = 2, 3
_BUSY = StreamRefusal(429, "busy", "come again", again=True)


@dataclass(frozen=True, slots=True)
class IngestSetting:
    """What a world is made of."""

    client: type[IngestState] = IngestState
    server: type[IngestStreams] = IngestStreams


@dataclass(slots=True)
class DurableRows:
    """The log: the numbers of each source in the order in which they were taken; a repeat is taken once."""

    taken: dict[str, list[int]] = field(default_factory=dict)
    known: dict[str, set[int]] = field(default_factory=dict)

    def take(self, taking: Taking) -> IntakeReceipt:
        """Take a change, as the intake does."""
        source = taking.messages[0].source
        taken, known = self.taken.setdefault(source, []), self.known.setdefault(source, set())
        fresh = [
            number
            for message in taking.messages
            for number in range(message.first, message.first + message.count)
            if number not in known
        ]
        taken += fresh
        known.update(fresh)
        end = sum(map(len, self.taken.values()))
        return IntakeReceipt(len(fresh), 0, taking.rows - len(fresh), Position(end))


class Link:
    """One connection: two directions in order, until it breaks."""

    def __init__(self, schedule: Schedule, random: Random) -> None:
        self._schedule, self._random = schedule, random
        self.open_at_client = self.open_at_server = True
        self._free = {"client": 0, "server": 0}

    def carry(self, to: str, arrive: Callable[[], None]) -> None:
        """Have something arrive, behind everything before it."""
        at = max(self._free[to], self._schedule.now + self._random.randrange(500, 30_000))
        self._free[to] = at
        self._schedule.at(at, partial(self._arrive, to, arrive))

    def _arrive(self, to: str, arrive: Callable[[], None]) -> None:
        if self.open_at_client if to == "client" else self.open_at_server:
            arrive()


class Server:
    """The connections of a server, and its writer: one change after the other."""

    def __init__(self, world: "IngestWorld") -> None:
        self._world = world
        self.alive = True
        self._writes: deque[tuple[IngestStreams, Taking, Callable[[Ingested | IngestRefused], None]]] = deque()
        self._writing = False

    def accept(self, answer: Callable[[Ingested | IngestRefused], None]) -> Callable[[bytes], None]:
        """A connection; returns what its messages are handed to."""
        world = self._world
        state = world.setting.server(WINDOW, lambda message: None, lambda size: not world.is_full)

        def received(data: bytes) -> None:
            if not self.alive:
                return
            message = decode_from_client(data)
            assert isinstance(message, Ingest)
            refusal = state.received(message, len(data))
            if refusal is not None:
                answer(refusal)
            world.schedule.after(1, partial(self._begin, state, answer))

        return received

    def _begin(self, state: IngestStreams, answer: Callable[[Ingested | IngestRefused], None]) -> None:
        if self.alive:
            for taking in state.due():
                self._writes.append((state, taking, answer))
            self._write()

    def _write(self) -> None:
        if not self._writing and self._writes:
            self._writing = True
            self._world.schedule.after(self._world.random.randrange(500, 20_000), self._written)

    def _written(self) -> None:
        if not self.alive:
            return
        world, self._writing = self._world, False
        state, taking, answer = self._writes.popleft()
        if world.fails:
            world.happened["write failed"] += 1
            answer(state.failed(taking, _BUSY))
        else:
            answer(state.durable(taking, world.log.take(taking)))
        self._begin(state, answer)
        self._write()

    def die(self) -> None:
        """Die; what is on its way to the disk arrives there or does not."""
        self.alive = False
        if self._writing and self._world.random.random() < 0.5:
            self._world.happened["kept without a word"] += 1
            self._world.log.take(self._writes[0][1])


class Sender:
    """A client with several streams."""

    def __init__(self, world: "IngestWorld", name: str) -> None:
        self.world = world
        self.name = name
        self.state = world.setting.client(world.random.random)
        self.next = dict.fromkeys(range(1, STREAMS + 1), 0)
        for number in self.next:
            self.state.begin(number, 0)
        self._resuming = False
        self.link: Link | None = None
        self._receive: Callable[[bytes], None] | None = None

    def source(self, stream: int) -> str:
        """The source of a stream."""
        return f"{self.name}/{stream}"

    def push(self) -> None:
        """The program sends a few rows, of one of its streams."""
        random = self.world.random
        stream = random.choice(list(self.next))
        first, count = self.next[stream], random.randrange(1, 8)
        self.next[stream] += count
        values: list[WireScalar] = list(range(first, first + count))
        rows = ColumnRows(("n",), (values,))
        data = encode(Ingest(stream, "t", self.source(stream), first, count, rows))
        self.state.push(stream, Batch(first, count, data))
        self.pump()

    def pump(self) -> None:
        """Send what may be sent."""
        for data in self.state.sendable(self.world.schedule.now):
            assert self.link is not None
            assert self._receive is not None
            self.link.carry("server", partial(self._receive, data))
        if self.state.rows > WINDOW.rows or self.state.bytes > WINDOW.bytes:
            raise Violation("more than the window is under way")
        due = self.state.due()
        if due is not None and not self._resuming:
            self._resuming = True
            self.world.schedule.at(max(due, self.world.schedule.now + 10_000), self._resume)

    def _resume(self) -> None:
        self._resuming = False
        self.pump()

    def connect(self) -> None:
        """Open a connection, if the server is there."""
        world = self.world
        if self.link is not None:
            return
        if world.server.alive:
            link = self.link = Link(world.schedule, world.random)
            self._receive = world.server.accept(lambda answer: link.carry("client", partial(self.receive, answer)))
            self.state.opened(WINDOW)
            self.pump()
        else:
            world.schedule.after(SECOND // 10, self.connect)

    def lose(self, linger: int) -> None:
        """The connection breaks; the server notices later."""
        link, self.link = self.link, None
        if link is None:
            return
        link.open_at_client = False
        self.world.schedule.after(linger, partial(setattr, link, "open_at_server", False))
        self.state.lost()
        self.world.schedule.after(self.world.random.randrange(1_000, SECOND), self.connect)

    def receive(self, answer: Ingested | IngestRefused) -> None:
        """The server said something."""
        self.world.note(self.name, answer)
        if isinstance(answer, IngestRefused):
            self.world.happened["refused"] += 1
            if not answer.again:
                raise Violation(f"a stream was ended: {answer.why}")
        try:
            self.state.received(answer, self.world.schedule.now)
        except ProtocolError as error:
            raise Violation(str(error)) from None
        self.check(answer.stream)
        self.pump()

    def check(self, number: int) -> None:
        """What is acknowledged is durable."""
        durable = self.state.streams[number].durable
        known = self.world.log.known.get(self.source(number), set())
        if any(one not in known for one in range(durable)):
            raise Violation(f"rows before {durable} of {self.source(number)} are acknowledged and not all durable")
        self.world.checks += 1


class IngestWorld:
    """One run; see the module."""

    def __init__(self, seed: int, setting: IngestSetting, note: Note | None) -> None:
        self.random = Random(seed)
        self.schedule = Schedule()
        self.setting = setting
        self.happened: Counter[str] = Counter()
        self.checks = 0
        self.log = DurableRows()
        self.fails = self.is_full = False
        self._noted = note
        self.server = Server(self)
        self._senders = [Sender(self, f"client {nth}") for nth in range(CLIENTS)]

    @property
    def changes(self) -> int:
        """Rows in the log."""
        return sum(map(len, self.log.taken.values()))

    def note(self, who: str, what: object) -> None:
        """Write into the trace."""
        if self._noted is not None:
            self._noted(self.schedule.now, who, what)

    def run(self) -> None:
        """Let everything happen."""
        for sender in self._senders:
            sender.connect()
            self._again(partial(self._push, sender), SECOND // 2)
        for event in (self._break, self._die, self._fail, self._fill):
            self._again(event, 4 * SECOND)
        self.schedule.run(LASTS)
        for sender in self._senders:
            for number, end in sender.next.items():
                self._check_end(sender, number, end)

    def _again(self, event: Callable[[], None], most: int) -> None:
        def happen() -> None:
            if self.schedule.now < HEALS:
                event()
                self.schedule.after(self.random.randrange(1, most), happen)

        self.schedule.after(self.random.randrange(1, most), happen)

    def _push(self, sender: Sender) -> None:
        for _ in range(self.random.choice((1, 1, 2, 8))):
            sender.push()

    def _break(self) -> None:
        sender = self.random.choice(self._senders)
        linger = self.random.choice((0, 0, SECOND // 2, SECOND))
        self.happened["connection broke, the server notices later" if linger else "connection broke"] += 1
        sender.lose(linger)

    def _die(self) -> None:
        if self.random.random() < 0.5 or not self.server.alive:
            return
        self.happened["server died"] += 1
        self.server.die()
        for sender in self._senders:
            sender.lose(0)
        self.schedule.after(SECOND // 2, self._revive)

    def _revive(self) -> None:
        self.server = Server(self)

    def _fail(self) -> None:
        self.fails = True
        self.schedule.after(self.random.randrange(SECOND), partial(setattr, self, "fails", False))

    def _fill(self) -> None:
        self.is_full = True
        self.happened["no room"] += 1
        self.schedule.after(self.random.randrange(SECOND), partial(setattr, self, "is_full", False))

    def _check_end(self, sender: Sender, number: int, end: int) -> None:
        source = sender.source(number)
        stream = sender.state.streams[number]
        if stream.durable != end:
            raise Violation(f"{source}: {end} rows were sent, and {stream.durable} are acknowledged in the end")
        if self.log.taken.get(source, []) != list(range(end)):
            raise Violation(f"{source}: the rows are not in the log each once and in order")
        if stream.accepted + stream.repeats < end:
            raise Violation(f"{source}: {stream.accepted} accepted and {stream.repeats} repeats of {end} rows")
        self.happened["repeats"] += stream.repeats
        self.checks += 1


def run(seed: int, setting: IngestSetting | None = None, trace: list[str] | None = None) -> Report:
    """Simulate a world of ingest streams."""
    return play(seed, lambda note: IngestWorld(seed, setting or IngestSetting(), note), trace)


def traced(seed: int, setting: IngestSetting | None = None) -> Iterator[str]:
    """The lines of a run's trace."""
    trace: list[str] = []
    report = run(seed, setting, trace)
    yield from trace
    yield f"seed {seed}: {report.violation or 'every promise was kept'}"
