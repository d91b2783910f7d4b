"""Bus endpoint: live connections over NATS, with the same sessions, tokens and limits as over WebSocket.

A dialler sends as words what a WebSocket carries in its request: `token`, `encoding` where it is not MessagePack,
`host` for the lane of one.
Without any token the bus must be on this machine, as everything else must.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from slackwater.core.bus import bus_address
from slackwater.core.errors import SlackwaterError
from slackwater.dissemination.encoding import Encoding
from slackwater.dissemination.transports import Connection, Denied, Handler
from slackwater.dissemination.transports.nats import NatsListener, NatsTransport
from slackwater.server.access import Caller, by_token, is_loopback
from slackwater.server.group_commit import Busy
from slackwater.server.live import Live
from slackwater.server.node import Node
from slackwater.server.rest.errors import RequestRefused, answer
from slackwater.server.store import STORE_FILE, Scope, Store


def check_bus(address: str, folder: Path) -> None:
    """Refuse an invalid address, and a bus on another machine while there are no tokens."""
    try:
        to = bus_address(address, named=True)
    except ValueError as error:
        raise SlackwaterError(str(error)) from None
    if all(is_loopback(host) for host in to.hosts):
        return
    with Store(folder / STORE_FILE) as store:
        if not store.any_token():
            raise SlackwaterError(
                f"without a token the server uses a bus on this machine only, not {to}; make one first: "
                f"slackwater token create NAME --scope admin --folder {folder}"
            )


@asynccontextmanager
async def on_bus(node: Node, live: Live, address: str) -> AsyncIterator[NatsListener]:
    """Take live connections at `nats://host:4222/name` for as long as the context lasts."""

    def admit(words: Mapping[str, str]) -> Handler:
        try:
            if not node.ready:
                raise Busy("the node is not ready; come again in a moment")
            who = _caller(words, node.store)
            live.check_room(who)
            encoding, sessions = _encoding(words), live.lane(words.get("host"))
        except (RequestRefused, Busy) as error:
            refusal = answer(error)
            raise Denied(str(error), status=refusal.status_code, body=bytes(refusal.body)) from None

        async def serve(connection: Connection) -> None:
            await live.serve(connection, who, encoding, sessions)

        return serve

    transport = NatsTransport(name=f"slackwater {node.settings.name}")
    async with transport.listen(None, live.limits, address, admit, node.settings.limits.frame) as listener:
        yield listener


def _caller(words: Mapping[str, str], store: Store) -> Caller:
    if not store.any_token():
        return Caller()
    text = words.get("token")
    if not text:
        raise RequestRefused(HTTPStatus.UNAUTHORIZED, "unauthorized", "this node wants a token")
    return by_token(text, store, Scope.READ)


def _encoding(words: Mapping[str, str]) -> Encoding:
    try:
        return Encoding(words.get("encoding", Encoding.MESSAGEPACK.value))
    except ValueError:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "bad_request", "encoding must be msgpack or json") from None
