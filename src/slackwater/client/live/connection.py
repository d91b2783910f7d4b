"""Live connection: transport I/O around `ClientState`, with reconnection.

Everything that is decided is decided by the state; here are the clock, the sockets and the timer. One task at a time
dials and then reads. A `Connect` begins another one, with the next of the addresses, and what the former had open is
closed.
"""

import asyncio
import itertools
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from slackwater.client.address import Address
from slackwater.client.failures import Forbidden, Refused, Unauthorized, of_answer, of_sentence
from slackwater.client.ingest.state import Batch, StreamState
from slackwater.client.live.channel_reader import ChannelReader
from slackwater.client.live.events import (
    AnswerChanged,
    Answered,
    Certainty,
    ClockTick,
    Connect,
    Described,
    Event,
    JoinChannel,
    LeaveChannel,
    Lost,
    MessageReceived,
    Opened,
    SendEncoded,
    SendMessage,
    Shown,
    SubscriptionEnded,
    Unanswerable,
    Unwanted,
    Wanted,
)
from slackwater.client.live.state import ClientState, Phase
from slackwater.client.live.subscription import Subscription
from slackwater.core.errors import ProtocolError, SlackwaterError
from slackwater.core.lineage import BEGINNING, Place
from slackwater.dissemination.encoding import decode_from_node, encode
from slackwater.dissemination.messages import UNICAST
from slackwater.dissemination.transports.base import (
    Channels,
    Closed,
    Connection,
    Denied,
    TransportError,
    TransportLimits,
)
from slackwater.dissemination.transports.open_channels import open_channels

LIMITS = TransportLimits(message=64 << 20, hold_back=1 << 20, unsent=64 << 20, grace=1.0)
"""Messages are as large as the snapshot of a subscription; a client itself sends little."""
_SHORTEST_TICK = 0.001


class Dialler(Protocol):
    """The half of a transport that a client needs."""

    async def dial(self, address: str, limits: TransportLimits) -> Connection:
        """Connect to a node."""
        ...


def microseconds() -> int:
    """The clock that leases are measured by; it never goes back."""
    return time.monotonic_ns() // 1000


ProgramEvent: TypeAlias = AnswerChanged | Described | SubscriptionEnded | Certainty
"""Instructions that inform the program."""


class LiveSession:
    """All subscriptions of one client.

    `heard`, where given, is called with all notifications of an event about them, a whole frame at once. `after`: see
    `ClientState`.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        transport: Dialler,
        jitter: Callable[[], float],
        clock: Callable[[], int] = microseconds,
        *,
        lane: str | None = None,
        elsewhere: Callable[[Subscription, str], None] | None = None,
        after: Place = BEGINNING,
        heard: Callable[[Sequence[ProgramEvent]], None] | None = None,
        make_state: Callable[..., ClientState] = ClientState,
        find_channels: Callable[[str], Channels] = open_channels,
    ) -> None:
        self._lane = lane
        self._elsewhere = elsewhere
        self._addresses = addresses
        self._transport = transport
        self._clock = clock
        self._state = make_state(jitter, after=after)
        self._heard = heard
        self.replied: Callable[[Answered | Unanswerable], None] = lambda instruction: None
        """Called at once with the outcome of each question."""
        self.moved: Callable[[int, int], None] = lambda position, incarnation: None
        """Called after each event with the position the node's answers refer to, and the incarnation of its log."""
        self._loop = asyncio.get_running_loop()
        self._refs = itertools.count(1)
        self._turn = itertools.cycle(addresses)
        self._denials = 0
        self._failure: SlackwaterError | None = None
        self._connection: Connection | None = None
        self._carrier: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._channels = ChannelReader(find_channels, self._handle)
        self._timer: asyncio.TimerHandle | None = None
        # Held weakly: a program that lets go of a subscription does not want it any more.
        self._streams: dict[int, Callable[[], None]] = {}
        """What to call with news of a stream."""
        self._subscriptions: weakref.WeakValueDictionary[int, Subscription] = weakref.WeakValueDictionary()
        self._watched: set[int] = set()
        self._closed = False

    # For programs.

    def subscribe(self, sql: str, delivery: str = UNICAST) -> Subscription:
        """Want a standing query, its facts delivered in this way if the server has it."""
        if self._closed:
            raise SlackwaterError("the client is closed: subscribe inside `async with slackwater.connect(…)`")
        subscription = Subscription(self, next(self._refs), sql, delivery)
        self._take(subscription)
        return subscription

    def adopt(self, subscription: Subscription) -> None:
        """Want a standing query that another lane could not give."""
        subscription._move(self, next(self._refs))
        if self._closed:
            subscription._end(SlackwaterError("the client is closed"))
        else:
            self._take(subscription)
            # Its waiting callers wait here from now on.
            self.watch(subscription._ref)

    def _take(self, subscription: Subscription) -> None:
        ref, sql = subscription._ref, subscription.sql
        self._subscriptions[ref] = subscription
        weakref.finalize(subscription, self._let_go, ref).atexit = False
        if self._state.phase is Phase.IDLE and self._failure is None:
            self._handle(ClockTick())
        self._handle(Wanted(ref, sql, subscription._wanted_delivery))
        if self._failure is not None:
            subscription._end(self._failure)
        elif self._state.phase is Phase.REFUSED:
            subscription._end(Refused(self._state.shown(ref, self._clock()).why))

    # For streams of rows.

    def begin_stream(self, first: int, look: Callable[[], None]) -> StreamState:
        """Begin a stream of rows that are numbered from `first` on; `look` is called when there is news of it."""
        if self._closed:
            raise SlackwaterError("the client is closed: stream inside `async with slackwater.connect(…)`")
        number = next(self._refs)
        self._streams[number] = look
        stream = self._state.ingest.begin(number, first)
        if self._state.phase is Phase.IDLE and self._failure is None:
            self._handle(ClockTick())
        return stream

    def push(self, stream: StreamState, batch: Batch) -> None:
        """Send rows of a stream, as soon as the window has room for them."""
        ingest = self._state.ingest
        ingest.push(stream.number, batch)
        for data in ingest.sendable(self._clock()):
            # There is no window, so nothing to be sent, without a connection.
            assert self._connection is not None
            self._connection.send(data)

    def end_stream(self, stream: StreamState) -> None:
        """The program has no more interest in the stream."""
        self._streams.pop(stream.number, None)
        self._state.ingest.abandon(stream.number)

    def _tell_streams(self) -> None:
        news, self._state.ingest.news = self._state.ingest.news, set()
        for number in news:
            look = self._streams.get(number)
            if look is not None:
                look()

    @property
    def state(self) -> ClientState:
        """The state machine underneath, read-only."""
        return self._state

    @property
    def closed(self) -> bool:
        """True once the program has closed it."""
        return self._closed

    @property
    def over(self) -> str | None:
        """Why no node will have this client any more; None while it is worth trying."""
        if self._failure is not None:
            return str(self._failure)
        return self._state.why if self._state.phase is Phase.REFUSED else None

    def shown(self, ref: int) -> Shown:
        """The current state of a subscription."""
        return self._state.shown(ref, self._clock())

    def watch(self, ref: int) -> None:
        """Note that a caller waits for a change of it."""
        self._watched.add(ref)

    def unsubscribe(self, ref: int) -> None:
        """It is not wanted any more."""
        self._watched.discard(ref)
        if not self._closed and ref in self._state.held:
            self._handle(Unwanted(ref))

    def dispatch(self, event: Event) -> None:
        """Something happened that only the state understands."""
        self._handle(event)

    async def close(self) -> None:
        """End everything."""
        if self._closed:
            return
        for subscription in list(self._subscriptions.values()):
            subscription._end(None)
        self._closed = True
        for look in list(self._streams.values()):
            look()
        if self._timer is not None:
            self._timer.cancel()
        self._stop_carrying()
        await self._channels.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # Events and instructions.

    def _handle(self, event: Event) -> None:
        if self._closed:
            return
        events: list[ProgramEvent] = []
        try:
            for instruction in self._state.handle(event, self._clock()):
                match instruction:
                    case SendMessage(message):
                        if self._connection is not None:
                            self._connection.send(encode(message))
                    case SendEncoded(data):
                        if self._connection is not None:
                            self._connection.send(data)
                    case Connect(after, _):
                        self._carry(after)
                    case JoinChannel() | LeaveChannel():
                        self._channels.do(instruction)
                    case AnswerChanged(ref) | Described(ref) | SubscriptionEnded(ref) | Certainty(ref):
                        self._tell(ref, instruction)
                        events.append(instruction)
                    case Answered() | Unanswerable():
                        self.replied(instruction)
        except ProtocolError as error:
            # The node's message about a subscription is impossible; the state is as before.
            if not isinstance(event, MessageReceived):
                raise
            self._handle(Lost(str(error)))
        if self._state.as_of is not None:
            self.moved(self._state.as_of, self._state.incarnation)
        if self._heard is not None:
            self._heard(events)
        if self._state.ingest.news:
            self._tell_streams()
        for ref in list(self._watched):
            watched = self._subscriptions.get(ref)
            if watched is None or not watched._look():
                self._watched.discard(ref)
        self._set_timer()

    def _tell(self, ref: int, instruction: ProgramEvent) -> None:
        subscription = self._subscriptions.get(ref)
        if subscription is None:
            return
        match instruction:
            case AnswerChanged():
                subscription._changed(instruction)
            case Described():
                subscription._described(instruction)
            case SubscriptionEnded(_, _, str() as host) if self._elsewhere is not None and host != self._lane:
                del self._subscriptions[ref]
                self._elsewhere(subscription, host)
            case SubscriptionEnded(_, why):
                subscription._end(of_sentence(why))
            case Certainty():
                pass  # its waiting callers are released with all others

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._failure is not None or self._closed:
            return
        now = self._clock()
        due = self._state.next_tick(now)
        if due is not None:
            self._timer = self._loop.call_later(max((due - now) / 1_000_000, _SHORTEST_TICK), self._handle, ClockTick())

    def _let_go(self, ref: int) -> None:
        # The collector may run anywhere, also in another thread, and when the loop is gone.
        if not self._closed and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.unsubscribe, ref)

    def _fail(self, error: SlackwaterError) -> None:
        """No node will have us: trying again makes no sense."""
        self._failure = error
        for look in list(self._streams.values()):
            look()
        for subscription in list(self._subscriptions.values()):
            subscription._end(error)
        self._set_timer()

    # The connection.

    def _carry(self, after: int) -> None:
        self._stop_carrying()
        self._carrier = self._loop.create_task(self._dial_and_read(next(self._turn), after))
        self._tasks.add(self._carrier)
        self._carrier.add_done_callback(self._tasks.discard)

    def _stop_carrying(self) -> None:
        carrier, self._carrier, self._connection = self._carrier, None, None
        if carrier is not None and carrier is not asyncio.current_task():
            carrier.cancel()

    async def _dial_and_read(self, address: Address, after: int) -> None:
        await asyncio.sleep(after / 1_000_000)
        try:
            connection = await self._transport.dial(address.lane(self._lane), LIMITS)
        except Denied as denial:
            self._denied(address, denial)
            return
        except TransportError as error:
            self._handle(Lost(str(error)))
            return
        try:
            self._denials = 0
            self._connection = connection
            self._handle(Opened())
            await self._read(connection)
        finally:
            await connection.close()

    async def _read(self, connection: Connection) -> None:
        # Another carrier takes over while an event is handled; what this one would read then counts no more.
        try:
            while self._connection is connection:
                self._handle(MessageReceived(decode_from_node(await connection.receive())))
        except (Closed, ProtocolError) as error:
            if self._connection is connection:
                self._handle(Lost(str(error)))

    def _denied(self, address: Address, denial: Denied) -> None:
        error = of_answer(denial.status, denial.body, str(address))
        self._denials += 1
        if isinstance(error, Unauthorized | Forbidden) and self._denials >= len(self._addresses):
            self._fail(error)
        else:
            self._handle(Lost(str(error)))
