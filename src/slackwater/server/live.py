"""Live connection endpoint: couples WebSocket connections with sessions; statements are parsed on a thread.

One connection has one task, the one that reads. Senders put messages into its bounded buffer at once
(`dissemination.transports`), so nothing here waits for a slow reader.

Reading a statement can take long, the first join of a machine longer than a client may be silent. It is read on a
thread, and until it is known whatever the client says after it waits its turn (`_Statements`), but for
acknowledgements: those say that the client is there. One whose like was read before is quick: it needs no thread, and
others have their turn after a few.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus

from starlette.websockets import WebSocket

from slackwater.core.errors import ProtocolError
from slackwater.dissemination.encoding import Encoding, decode_from_client
from slackwater.dissemination.messages import Ack, FromClient, Ingest, Subscribe
from slackwater.dissemination.transports import Carried, Closed, Connection, TransportLimits
from slackwater.dissemination.transports.asgi import AsgiSocket
from slackwater.dissemination.transports.socket import WebSocketConnection
from slackwater.server.access import Caller, caller
from slackwater.server.group_commit import Busy
from slackwater.server.live_ingest import LiveIngest, window
from slackwater.server.node import Node
from slackwater.server.rest.errors import RequestRefused, answer
from slackwater.server.session_host import Sessions
from slackwater.server.store import Scope
from slackwater.sessions.events import Principal

SUBPROTOCOLS = {"slackwater.msgpack": Encoding.MESSAGEPACK, "slackwater.json": Encoding.JSON}
_GRACE = 2.0
"""Seconds that a peer has to take what was sent before a connection is dropped."""

_QUICK_IN_A_ROW = 16
"""Quick statements of one connection after which others have their turn."""
_MOST_WAITING, _MOST_BYTES = 4_096, 1 << 20
"""Messages of one connection that wait for a statement, and their bytes; beyond that it is not read on."""


class _Statements:
    """The messages of one connection, handed on in order; a statement is read first, while others wait behind it."""

    def __init__(
        self, read: Callable[[str], None], is_quick: Callable[[str], bool], hand_on: Callable[[FromClient], None]
    ) -> None:
        self._read = read
        self._is_quick = is_quick
        self._hand_on = hand_on
        self._waiting: deque[tuple[FromClient, int]] = deque()
        self._bytes = 0
        self._reading: asyncio.Task[None] | None = None
        self._in_a_row = 0

    async def take(self, message: FromClient, size: int) -> None:
        """Hand a message on when its turn comes; returns before that unless too much waits."""
        if self._reading is not None and self._reading.done():
            await self.settled()
        if isinstance(message, Ack):
            self._hand_on(message)
            return
        if len(self._waiting) >= _MOST_WAITING or self._bytes >= _MOST_BYTES:
            await self.settled()
        if self._reading is None:
            if not isinstance(message, Subscribe):
                self._hand_on(message)
                return
            if self._is_quick(message.sql):
                self._hand_on(message)
                await self._let_others_have_their_turn()
                return
        self._waiting.append((message, size))
        self._bytes += size
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._in_turn())

    async def settled(self) -> None:
        """Wait until nothing waits."""
        if self._reading is not None:
            await self._reading
            self._reading = None

    def stop(self) -> None:
        """Hand nothing more on."""
        if self._reading is not None:
            self._reading.cancel()

    async def _in_turn(self) -> None:
        while self._waiting:
            message, size = self._waiting[0]
            if isinstance(message, Subscribe):
                if self._is_quick(message.sql):
                    await self._let_others_have_their_turn()
                else:
                    await asyncio.to_thread(self._read, message.sql)
            self._waiting.popleft()
            self._bytes -= size
            self._hand_on(message)

    async def _let_others_have_their_turn(self) -> None:
        self._in_a_row += 1
        if self._in_a_row >= _QUICK_IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)


class _Port:
    """Adapter of a connection for the sessions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.closing: asyncio.Task[None] | None = None

    def send(self, message: Carried) -> bool:
        """Take a message at once."""
        return self._connection.send(message)

    async def drained(self) -> None:
        """Wait for room."""
        await self._connection.drained()

    def end(self, why: str) -> None:
        """Close it once what was sent is written."""
        if self.closing is None:
            self.closing = asyncio.get_running_loop().create_task(self._connection.close(why))


class Live:
    """The live connections of a node, and its WebSocket endpoint."""

    def __init__(self, node: Node) -> None:
        self._node = node
        limits = node.settings.limits
        self.limits = TransportLimits(
            message=limits.unsent, hold_back=limits.outgoing, unsent=limits.unsent, grace=_GRACE
        )

    async def endpoint(self, socket: WebSocket) -> None:
        """Serve one connection until it ends."""
        try:
            who = self._admitted(socket)
            sessions = self.lane(socket.query_params.get("host"))
            encoding, subprotocol = _encoding(socket)
        except (RequestRefused, Busy) as error:
            await socket.send_denial_response(answer(error))
            return
        await socket.accept(subprotocol)
        carrier = AsgiSocket(socket)
        await self.serve(WebSocketConnection(carrier, self.limits), who, encoding, sessions, carrier.offer)

    async def serve(
        self,
        connection: Connection,
        who: Caller,
        encoding: Encoding,
        sessions: Sessions,
        offer: Callable[[Callable[[bytes], bool]], None] = lambda take: None,
    ) -> None:
        """Serve an authorised connection in one of the lanes until it ends.

        `offer` has short messages offered as they arrive: acknowledgements need not wait for their turn.
        """
        port = _Port(connection)
        granted = window(self._node.settings.limits, who, self._node)
        principal = Principal(who.name, may_register=self._node.writable, ingest=granted)
        number = sessions.connected(port, principal, encoding, who.token)
        rows = LiveIngest(self._node, who, granted, lambda message: sessions.send(number, message))
        if encoding is Encoding.MESSAGEPACK:
            offer(lambda data: _acknowledged(data, number, sessions))
        try:
            await self._read(connection, sessions, number, encoding, rows)
        finally:
            rows.close()
            sessions.lost(number)
            if port.closing is not None:
                await port.closing
            await connection.close()

    def lane(self, host: str | None) -> Sessions:
        """The sessions of the requested host; by default of the host that new queries go to."""
        asked = self._node.settings.placement.default.value if host is None else host
        found = next((lane for host, lane in self._node.lanes.items() if host.value == asked), None)
        if found is None:
            known = ", ".join(host.value for host in self._node.lanes)
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "bad_request", f"host must be one of {known}")
        return found.sessions

    def _admitted(self, socket: WebSocket) -> Caller:
        who = caller(socket, self._node.store, Scope.READ)
        self.check_room(who)
        return who

    def check_room(self, who: Caller) -> None:
        """Refuse one connection more than are allowed."""
        limits = self._node.settings.limits
        lanes = [lane.sessions for lane in self._node.lanes.values()]
        own = sum(sessions.of_token(who.token) for sessions in lanes)
        if sum(map(len, lanes)) >= limits.connections or own >= limits.connections_a_token:
            raise Busy("there are as many connections as are allowed; come again later, or to another node")
        if not self._node.ready:
            raise Busy("the node is not ready; come again in a moment")

    async def _read(
        self, connection: Connection, sessions: Sessions, number: int, encoding: Encoding, rows: LiveIngest
    ) -> None:
        wanted = bytes if encoding is Encoding.MESSAGEPACK else str
        engine = self._node.engine
        statements = _Statements(engine.read, engine.is_quick, lambda message: sessions.received(number, message))
        why = None
        try:
            while True:
                data = await connection.receive()
                if not isinstance(data, wanted):
                    why = f"this connection speaks {encoding.value}: send {_KINDS[encoding]}"
                    break
                try:
                    message = decode_from_client(data, encoding)
                except ProtocolError as error:
                    why = str(error)[:500]
                    break
                if isinstance(message, Ingest):
                    # Rows have an order of their own; a statement that is being read does not hold them up.
                    if sessions.is_open(number):
                        rows.received(message, len(data))
                else:
                    await statements.take(message, len(data))
        except Closed:
            pass
        except BaseException:
            statements.stop()
            raise
        # What came before the end has its turn before it.
        await statements.settled()
        if why is not None:
            sessions.farewell(number, why, again=False)


def _acknowledged(data: bytes, number: int, sessions: Sessions) -> bool:
    """Hand an acknowledgement on; False for every other message."""
    if data[1:5] != _ACK:
        return False
    try:
        message = decode_from_client(data)
    except ProtocolError:
        return False
    sessions.received(number, message)
    return True


_ACK = b"\xa3ack"
"""How an acknowledgement goes on after its length, in MessagePack."""
_KINDS = {Encoding.MESSAGEPACK: "binary messages", Encoding.JSON: "text"}


def _encoding(socket: WebSocket) -> tuple[Encoding, str | None]:
    """How the messages are to be written: by subprotocol, by parameter, or MessagePack."""
    for subprotocol in socket.scope.get("subprotocols", []):
        if subprotocol in SUBPROTOCOLS:
            return SUBPROTOCOLS[subprotocol], subprotocol
    asked = socket.query_params.get("encoding", Encoding.MESSAGEPACK.value)
    try:
        return Encoding(asked), None
    except ValueError:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "bad_request", "encoding must be msgpack or json") from None
