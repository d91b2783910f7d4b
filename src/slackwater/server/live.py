"""The live connection: whose messages go to the sessions, and whose sessions' messages go out; here by WebSocket.

One connection has one task, the one that reads. What is to be sent is put into its bounded buffer at once by whoever
has it (`dissemination.transports`), so nothing here waits for a slow reader.
"""

import asyncio
from http import HTTPStatus

from starlette.websockets import WebSocket

from slackwater.core.errors import ProtocolError
from slackwater.dissemination.encoding import Encoding, decode_from_client
from slackwater.dissemination.messages import Subscribe
from slackwater.dissemination.transports import Carried, Closed, Connection, How, Limits
from slackwater.dissemination.transports.asgi import AsgiSocket
from slackwater.dissemination.transports.socket import WebSocketConnection
from slackwater.server.access import Caller, caller
from slackwater.server.errors import Refusal, answer
from slackwater.server.events import Principal
from slackwater.server.node import Node
from slackwater.server.sessions import Sessions
from slackwater.server.store import Scope
from slackwater.server.writing import Busy

SUBPROTOCOLS = {"slackwater.msgpack": Encoding.MESSAGEPACK, "slackwater.json": Encoding.JSON}
_GRACE = 2.0
"""Seconds that a peer has to take what was sent before a connection is dropped."""


class _Port:
    """A connection as the sessions see it."""

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
        self.limits = Limits(message=limits.unsent, hold_back=limits.outgoing, unsent=limits.unsent, grace=_GRACE)

    async def endpoint(self, socket: WebSocket) -> None:
        """Serve one connection until it ends."""
        try:
            who = self._admitted(socket)
            sessions = self.lane(socket.query_params.get("host"))
            encoding, subprotocol = _encoding(socket)
        except (Refusal, Busy) as error:
            await socket.send_denial_response(answer(error))
            return
        await socket.accept(subprotocol)
        await self.serve(WebSocketConnection(AsgiSocket(socket), self.limits), who, encoding, sessions)

    async def serve(self, connection: Connection, who: Caller, encoding: Encoding, sessions: Sessions) -> None:
        """Serve a connection of somebody who may have one, in one of the lanes, until it ends."""
        port = _Port(connection)
        principal = Principal(who.name, may_register=self._node.writable)
        number = sessions.connected(port, principal, encoding, who.token)
        try:
            await self._read(connection, sessions, number, encoding)
        finally:
            sessions.lost(number)
            if port.closing is not None:
                await port.closing
            await connection.close()

    def lane(self, host: str | None) -> Sessions:
        """The sessions of the host that is asked for; of whichever most queries are kept by, unless it says."""
        asked = self._node.settings.placement.default.value if host is None else host
        found = next((sessions for host, sessions in self._node.lanes.items() if host.value == asked), None)
        if found is None:
            known = ", ".join(host.value for host in self._node.lanes)
            raise Refusal(HTTPStatus.BAD_REQUEST, "bad_request", f"host must be one of {known}")
        return found

    def _admitted(self, socket: WebSocket) -> Caller:
        who = caller(socket, self._node.store, Scope.READ)
        self.check_room(who)
        return who

    def check_room(self, who: Caller) -> None:
        """Refuse one connection more than are allowed."""
        lanes, limits = self._node.lanes.values(), self._node.settings.limits
        own = sum(sessions.of_token(who.token) for sessions in lanes)
        if sum(map(len, lanes)) >= limits.connections or own >= limits.connections_a_token:
            raise Busy("there are as many connections as are allowed; come again later, or to another node")
        if not self._node.ready:
            raise Busy("the node is not ready; come again in a moment")

    async def _read(self, connection: Connection, sessions: Sessions, number: int, encoding: Encoding) -> None:
        wanted = bytes if encoding is Encoding.MESSAGEPACK else str
        try:
            while True:
                data = await connection.receive()
                if not isinstance(data, wanted):
                    sessions.farewell(
                        number, f"this connection speaks {encoding.value}: send {_KINDS[encoding]}", again=False
                    )
                    return
                try:
                    message = decode_from_client(data, encoding)
                except ProtocolError as error:
                    sessions.farewell(number, str(error)[:500], again=False)
                    return
                if isinstance(message, Subscribe):
                    # Reading a statement can take long; here nobody else waits for it, and then it is known.
                    await asyncio.to_thread(self._node.engine.read, message.sql)
                sessions.received(number, message)
        except Closed as closed:
            if closed.ended.how is How.TOO_LARGE:
                return


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
        raise Refusal(HTTPStatus.BAD_REQUEST, "bad_request", "encoding must be msgpack or json") from None
