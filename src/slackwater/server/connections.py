"""Connection slots: which TCP connections a server has room for, how long each phase may last, which one makes room.

A stranger is a connection over which no request was admitted yet: with tokens, one that has shown none. Strangers are
bounded in three ways. Each phase in which the server waits for the peer has a time-out. There are so many of them at
most: every connection begins as a stranger, and one more takes the place of another stranger, once that one has had its
time to say something. And where there is no room left at all, a new connection takes the place of another one: first of
a stranger whose request head is not complete, the oldest first; then of any stranger; then of an idle connection. What
is admitted and at work is never closed for a new one. Nor is a connection that was taken a few turns ago: the request
that came with it has not been read yet.

Everything here is a function of its arguments: the time is one of them.
"""

import ipaddress
import math
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

_STRANGERS = 2
"""Ranks of strangers, the first ones."""
_PREFIX = 64
"""Bits of an IPv6 address that count: one peer has all addresses below them."""


class ConnectionPhase(Enum):
    """What a connection is at; the server waits for the peer in all but two of them."""

    HEAD = "head"
    """A request head is to come, from the first moment on or from the first byte after an answer."""
    BODY = "body"
    """The head is complete, the body is not."""
    REST = "rest"
    """The answer is given, and the rest of a body that is not read is still coming."""
    ANSWER = "answer"
    """The request is complete, the answer is not."""
    IDLE = "idle"
    """Between two requests."""
    LIVE = "live"
    """A WebSocket that was accepted; its sessions have time-outs of their own."""


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """How many connections there may be, and how many seconds they may take."""

    most: int
    most_an_address: int
    head_seconds: float
    body_seconds: float
    idle_seconds: float
    turns: int = 8
    """Turns of accepting for which a connection does not have to make room, from when it came or changed its phase."""
    most_strangers: int = 4_000
    """Connections over which no request was admitted: each takes memory without having shown a right to it."""
    stranger_seconds: float = 1.0
    """For which a stranger does not make room for another one: many that come at once wait for each other."""

    def seconds(self, phase: ConnectionPhase) -> float:
        """Time-out of a phase. An answer and an idle connection are looked at then, others are closed."""
        return {
            ConnectionPhase.HEAD: self.head_seconds,
            ConnectionPhase.BODY: self.body_seconds,
            ConnectionPhase.REST: self.head_seconds,
            ConnectionPhase.LIVE: math.inf,
        }.get(phase, self.idle_seconds)


@dataclass(frozen=True, slots=True)
class SlotGrant:
    """What becomes of a new connection: its number, or None where it is refused, and the one that makes room."""

    number: int | None
    evicted: int | None = None


@dataclass(slots=True)
class _Occupied:
    address: str
    came: float
    phase: ConnectionPhase = ConnectionPhase.HEAD
    stranger: bool = True

    @property
    def rank(self) -> int | None:
        """Whose turn it is to make room, the least first; None: never."""
        if self.phase is ConnectionPhase.LIVE:
            return None
        if self.stranger:
            return 0 if self.phase in (ConnectionPhase.HEAD, ConnectionPhase.REST) else 1
        return 2 if self.phase in (ConnectionPhase.HEAD, ConnectionPhase.REST, ConnectionPhase.IDLE) else None


class _Replaceable:
    """The connections of one rank with the turn they came to it, in all and by address, oldest first."""

    def __init__(self) -> None:
        self.all: OrderedDict[int, int] = OrderedDict()
        self._by_address: dict[str, OrderedDict[int, int]] = {}

    def add(self, number: int, address: str, turn: int) -> None:
        self.all[number] = turn
        self._by_address.setdefault(address, OrderedDict())[number] = turn

    def remove(self, number: int, address: str) -> None:
        del self.all[number]
        own = self._by_address[address]
        del own[number]
        if not own:
            del self._by_address[address]

    def oldest(self, address: str | None, until: int) -> int | None:
        """The one that came first, if it came by this turn."""
        some = self.all if address is None else self._by_address.get(address, OrderedDict())
        number, turn = next(iter(some.items()), (None, until))
        return number if turn <= until else None


class ConnectionSlots:
    """The TCP connections of a server.

    >>> slots = ConnectionSlots(SlotLimits(2, 2, head_seconds=10, body_seconds=30, idle_seconds=30, turns=0))
    >>> [slots.admit("192.0.2.1", now=0.0).number, slots.admit("192.0.2.1", now=1.0).number]
    [1, 2]
    >>> slots.admit("192.0.2.2", now=2.0)
    SlotGrant(number=3, evicted=1)
    >>> list(slots.overdue(now=11.0))
    [(2, <ConnectionPhase.HEAD: 'head'>)]
    """

    def __init__(self, limits: SlotLimits) -> None:
        self.limits = limits
        self.counts: Counter[str] = Counter()
        """Connections accepted, refused, evicted and timed out since the server began, and pauses of accepting."""
        self._turn = 0
        self._now = 0.0
        self._connections: dict[int, _Occupied] = {}
        self._addresses: Counter[str] = Counter()
        self._replaceable = (_Replaceable(), _Replaceable(), _Replaceable())
        self._since: dict[ConnectionPhase, OrderedDict[int, float]] = {
            phase: OrderedDict() for phase in ConnectionPhase
        }
        """When each connection entered its phase: with one time-out a phase, in order of the deadlines."""

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def has_room(self) -> bool:
        """True if a new connection can be taken, maybe in place of another."""
        if self._crowded:
            return self._next_stranger(None) is not None
        return len(self._connections) < self.limits.most or self._next_evicted(None) is not None

    @property
    def will_have_room(self) -> bool:
        """True if there is room, or will be in a few turns."""
        return len(self._connections) < self.limits.most or any(one.all for one in self._replaceable)

    def begin_turn(self, now: float) -> None:
        """The server accepts once more what has come."""
        self._turn += 1
        self._now = now

    def admit(self, address: str, now: float) -> SlotGrant:
        """A new connection: it takes a slot, or the slot of another one, or is refused."""
        evicted = None
        full = self._addresses[address] >= self.limits.most_an_address
        if full or self._crowded or len(self._connections) >= self.limits.most:
            of = address if full else None
            evicted = self._give_up(self._next_stranger(of) if self._crowded else self._next_evicted(of))
            if evicted is None:
                self.counts["refused"] += 1
                return SlotGrant(None)
        self.counts["accepted"] += 1
        number = self.counts["accepted"]
        self._connections[number] = _Occupied(address, now)
        self._addresses[address] += 1
        self._place(number, now)
        return SlotGrant(number, evicted)

    def evict(self) -> int | None:
        """Give up the connection that has to make room; None if none has to."""
        return self._give_up(self._next_evicted(None))

    def enter(self, number: int, phase: ConnectionPhase, now: float) -> None:
        """A connection comes to a phase; the time-out of one that it is in already goes on."""
        one = self._connections.get(number)
        if one is not None and one.phase is not phase:
            self._displace(number, one)
            one.phase = phase
            self._place(number, now)

    def prolong(self, number: int, now: float) -> None:
        """Let the phase of a connection begin anew."""
        one = self._connections.get(number)
        if one is not None:
            self._displace(number, one)
            self._place(number, now)

    def recognise(self, number: int) -> None:
        """A request was admitted: the connection is no stranger's any more."""
        one = self._connections.get(number)
        if one is not None and one.stranger:
            self._withdraw(number, one)
            one.stranger = False
            self._offer(number, one)

    def leave(self, number: int) -> None:
        """A connection has ended; nothing happens where it had to go before."""
        one = self._connections.get(number)
        if one is not None:
            self._displace(number, one)
            del self._connections[number]
            self._addresses[one.address] -= 1
            if not self._addresses[one.address]:
                del self._addresses[one.address]

    def overdue(self, now: float) -> Iterator[tuple[int, ConnectionPhase]]:
        """The connections whose phase has lasted as long as it may; they stay until they leave or are prolonged."""
        for phase, since in self._since.items():
            seconds = self.limits.seconds(phase)
            late = []
            for number, began in since.items():
                if began + seconds > now:
                    break
                late.append((number, phase))
            yield from late

    def _give_up(self, number: int | None) -> int | None:
        if number is not None:
            self.counts["evicted"] += 1
            self.leave(number)
        return number

    @property
    def _crowded(self) -> bool:
        """True if a new connection, whatever room there is, is a stranger too many."""
        return self.limits.most_strangers < self.limits.most and self._strangers >= self.limits.most_strangers

    @property
    def _strangers(self) -> int:
        return sum(len(queue.all) for queue in self._replaceable[:_STRANGERS])

    def _next_stranger(self, address: str | None) -> int | None:
        """The stranger, of an address or of all, that makes room for another one."""
        number = self._next_evicted(address, _STRANGERS)
        # Counted from its first moment: one that asks again and again does not stay young.
        if number is None or self._now - self._connections[number].came < self.limits.stranger_seconds:
            return None
        return number

    def _next_evicted(self, address: str | None, ranks: int | None = None) -> int | None:
        """The one of an address, or of all, that makes room next, if it is of these first ranks."""
        until = self._turn - self.limits.turns
        found = (queue.oldest(address, until) for queue in self._replaceable[:ranks])
        return next((number for number in found if number is not None), None)

    def _place(self, number: int, now: float) -> None:
        one = self._connections[number]
        self._since[one.phase][number] = now
        self._offer(number, one)

    def _displace(self, number: int, one: _Occupied) -> None:
        del self._since[one.phase][number]
        self._withdraw(number, one)

    def _offer(self, number: int, one: _Occupied) -> None:
        if one.rank is not None:
            self._replaceable[one.rank].add(number, one.address, self._turn)

    def _withdraw(self, number: int, one: _Occupied) -> None:
        if one.rank is not None:
            self._replaceable[one.rank].remove(number, one.address)

    def _check(self) -> None:
        """The invariants, for tests."""
        assert sum(self._addresses.values()) == len(self._connections) <= self.limits.most
        assert self._strangers <= self.limits.most_strangers
        assert all(0 < count <= self.limits.most_an_address for count in self._addresses.values())
        for number, one in self._connections.items():
            assert [phase for phase, since in self._since.items() if number in since] == [one.phase]
            ranks = [rank for rank, queue in enumerate(self._replaceable) if number in queue.all]
            assert ranks == ([] if one.rank is None else [one.rank])
        assert sum(map(len, self._since.values())) == len(self._connections)
        assert all(sorted(since.values()) == list(since.values()) for since in self._since.values())


def counted_address(host: str) -> str:
    """The part of a peer's address that its connections are counted by.

    >>> counted_address("192.0.2.7"), counted_address("2001:db8:1:2:3:4:5:6"), counted_address("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8:1:2::/64', '192.0.2.7')
    """
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _PREFIX), strict=False))
