"""HTTP listener: uvicorn, the loopback rule, shutdown by signal, and the endpoint file."""

import asyncio
import logging
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvicorn
from uvicorn.config import STARTUP_FAILURE

from slackwater.core.durable_file import replace_file
from slackwater.core.errors import HistoryReplaced, LogError, SlackwaterError, StoreError
from slackwater.deployment.endpoint_file import STATE_FILE, Listening
from slackwater.deployment.lifeline import answering
from slackwater.dissemination.transports.asgi import HeldProtocol
from slackwater.dissemination.transports.open_channels import MEMORY
from slackwater.log import open_log
from slackwater.server.acceptor import Acceptor, Slot
from slackwater.server.access import is_loopback
from slackwater.server.bus import check_bus, on_bus
from slackwater.server.connections import ConnectionSlots, SlotLimits
from slackwater.server.descriptors import descriptors_open, raise_limit, room_for_connections
from slackwater.server.direct_lane import Endpoint
from slackwater.server.http_protocol import HEAD_BYTES, SlotProtocol
from slackwater.server.live import Live
from slackwater.server.log_lines import LimitedHandler
from slackwater.server.node import Node, NodeSettings
from slackwater.server.rest.app import direct_endpoint, make_app
from slackwater.server.store import STORE_FILE, Store
from slackwater.server.whole_request import HeadReader
from slackwater.sessions.limits import ServerLimits

_report = logging.getLogger("slackwater.server")
_BACKLOG = 4_096
_WRITE_AGAIN_SECONDS = 1.0
_OPEN_AGAIN_SECONDS = 0.2
_GRACEFUL_SECONDS = 5
_BODY_SLACK = 1.0
"""Seconds for the answer that a body came too slowly; then the connection is closed whatever the request does."""
_SHARE_OF_AN_ADDRESS = 0.75
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Serving:
    """Settings of a server; port 0 lets the system choose. `bus`: also there, as nats://host:4222/name."""

    settings: NodeSettings
    host: str = "127.0.0.1"
    port: int = 0
    bus: str | None = None


def serve(serving: Serving, announce: Callable[[Listening], None], make: Callable[[NodeSettings], Node] = Node) -> int:
    """Serve until a signal stops the process; returns the exit code of the process."""
    folder = serving.settings.folder
    check_host(serving.host, folder)
    if serving.bus is not None:
        check_bus(serving.bus, folder)
    if serving.settings.channels is not None and serving.settings.channels != MEMORY:
        check_bus(serving.settings.channels, folder)
    listener = _listener(serving.host, serving.port)
    try:
        code: int | None = None
        tolerated: type[LogError] = HistoryReplaced
        while code is None:
            node = _opened(serving.settings, make, tolerated)
            port = int(listener.getsockname()[1])
            listening = Listening(serving.host, port, os.getpid(), serving.settings.name, node.generation)
            code = asyncio.run(_run(node, listener.dup(), listening, announce, serving.bus))
            # Clients that come meanwhile wait in the backlog. The log may be half replaced at this moment. The state
            # of the former node is let go before another is made.
            tolerated = LogError
            del node
        return code
    finally:
        listener.close()


def _opened(settings: NodeSettings, make: Callable[[NodeSettings], Node], tolerated: type[LogError]) -> Node:
    """Open a node; again after a tolerated failure, as when its log is replaced while it is read."""
    if settings.follow is not None:
        _wait_for_log(settings.follow)
    while True:
        try:
            return make(settings)
        except tolerated as error:
            _report.warning("it is opened again: %s", error)
            time.sleep(_OPEN_AGAIN_SECONDS)


def check_host(host: str, folder: Path) -> None:
    """Refuse a host name other than loopback while there are no tokens."""
    if is_loopback(host):
        return
    with Store(folder / STORE_FILE) as store:
        if not store.any_token():
            raise SlackwaterError(
                f"without a token the server listens on this machine only, not on {host}; make one first: "
                f"slackwater token create NAME --scope admin --folder {folder}"
            )


def _wait_for_log(place: Path | str) -> None:
    """Give the process that writes a log the time to begin it; opening says what is wrong if it does not."""
    give_up = time.monotonic() + _PATIENCE
    while not _begun(place) and time.monotonic() < give_up:
        time.sleep(0.05)


def _begun(place: Path | str) -> bool:
    if isinstance(place, Path):
        return any(place.glob("*.segment"))
    try:
        open_log(place, read_only=True).close()
    except LogError:
        return False
    return True


async def _run(
    node: Node,
    listener: socket.socket,
    listening: Listening,
    announce: Callable[[Listening], None],
    bus: str | None,
) -> int | None:
    """Serve a node until it ends; the exit code of the process, None where the node is to be opened anew."""
    limits = node.settings.limits

    def failed() -> None:
        server.should_exit = True

    live = Live(node)
    slots = ConnectionSlots(slot_limits(limits, raise_limit(), descriptors_open()))
    _report.info("room for %d connections, %d an address", slots.limits.most, slots.limits.most_an_address)
    app = make_app(node, failed, live, slots)
    server = _Server(
        uvicorn.Config(
            app,
            loop="asyncio",
            http=SlotProtocol,
            ws=HeldProtocol,
            ws_max_size=limits.frame,
            ws_per_message_deflate=False,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=math.ceil(limits.idle_seconds),
            timeout_graceful_shutdown=_GRACEFUL_SECONDS,
            h11_max_incomplete_event_size=HEAD_BYTES,
        ),
        node.farewell,
        slots,
        direct_endpoint(app),
    )
    state = node.settings.folder / STATE_FILE

    async def announced() -> None:
        while not server.started:
            await asyncio.sleep(0.005)
        why = unwritten = _unwritten(state, listening)
        announce(listening)
        if why is not None:
            _report.warning("processes on this machine cannot find the server yet: %s", why)
        while unwritten is not None:
            await asyncio.sleep(_WRITE_AGAIN_SECONDS)
            unwritten = _unwritten(state, listening)

    async with AsyncExitStack() as stack:
        stack.enter_context(answering(asyncio.get_running_loop()))
        if bus is not None:
            try:
                await stack.enter_async_context(on_bus(node, live, bus))
            except BaseException:
                listener.close()
                node.close()
                raise
        announcing = asyncio.get_running_loop().create_task(announced())
        try:
            await server.serve(sockets=[listener])
        finally:
            announcing.cancel()
            await asyncio.gather(announcing, return_exceptions=True)
            listener.close()
            with suppress(OSError):
                state.unlink()
    if isinstance(node.failure, HistoryReplaced) and not server.signalled:
        return None
    return 0 if node.failure is None or isinstance(node.failure, HistoryReplaced) else 1


class _Server(uvicorn.Server):
    """uvicorn, which would end the process by the signal again before everything is put away."""

    def __init__(
        self, config: uvicorn.Config, farewell: Callable[[], None], slots: ConnectionSlots, direct: Endpoint
    ) -> None:
        super().__init__(config)
        self.signalled = False
        """Whether a signal asked for the end."""
        self._farewell = farewell
        self._slots = slots
        self._direct = direct

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen: as uvicorn does, with connections that have slots."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)

        direct, state = (self._direct, HeadReader()), self.lifespan.state

        def make(slot: Slot) -> asyncio.Protocol:
            return SlotProtocol(slot, direct, config=self.config, server_state=self.server_state, app_state=state)

        acceptors = [Acceptor(one, self._slots, make) for one in sockets or []]
        self.servers = acceptors  # type: ignore[assignment]
        for acceptor in acceptors:
            acceptor.start()
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send close messages before the connections are closed."""
        self._farewell()
        await asyncio.sleep(0)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal asks for the end, a second one insists."""
        loop = asyncio.get_running_loop()

        def asked(number: int) -> None:
            self.signalled = True
            self.handle_exit(number, None)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked, number)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With the protocol named, asyncio sends small answers at once instead of waiting 40 ms for more.
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(address)
            made.listen(_BACKLOG)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        raise SlackwaterError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error
    return made


def _unwritten(state: Path, listening: Listening) -> str | None:
    """Write the endpoint file; why it could not be written, as on a full disk."""
    try:
        write_state(state, listening)
    except StoreError as error:
        return str(error)
    return None


def slot_limits(limits: ServerLimits, descriptors: int, used: int) -> SlotLimits:
    """Room for connections, by the limits of the server and the descriptors of the process."""
    most = min(limits.sockets, room_for_connections(descriptors, used))
    return SlotLimits(
        most,
        min(most, limits.sockets_an_address or math.ceil(most * _SHARE_OF_AN_ADDRESS)),
        limits.head_seconds,
        limits.body_seconds + _BODY_SLACK,
        limits.idle_seconds,
        most_strangers=min(most, limits.strangers),
    )


def write_state(path: Path, listening: Listening) -> None:
    """Write the endpoint file atomically: readers see all of it or none."""
    replace_file(path, msgspec.json.encode(listening) + b"\n")


class _OneLine(logging.Filter):
    """Log filter: one line, without a traceback, for errors of untrusted clients."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == "uvicorn.error" and "Invalid UTF-8" in record.getMessage():
            record.exc_info = record.exc_text = None
        return True


def report_to_stderr(level: int = logging.INFO) -> None:
    """One line for each report, and not too many: also for those of libraries, of which only warnings are written."""
    handler = LimitedHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(_OneLine())
    for name in ("slackwater", "uvicorn", None):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level if name == "slackwater" else max(level, logging.WARNING))
        logger.propagate = False
